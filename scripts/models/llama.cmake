# Read by CMake at the start of llama.cpp. Disables its library for chat programs, which we do not use and which takes more than
# half of the build time: llama-cpp-2 enables it even without its feature `common`.
set(LLAMA_BUILD_COMMON OFF CACHE BOOL "" FORCE)
