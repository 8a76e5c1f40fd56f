# Read by CMake at the beginning of llama.cpp. Leaves out its library for chat programs, of which we call nothing, and which takes
# more than half of the time: llama-cpp-2 asks for it also where its feature `common` is off.
set(LLAMA_BUILD_COMMON OFF CACHE BOOL "" FORCE)
