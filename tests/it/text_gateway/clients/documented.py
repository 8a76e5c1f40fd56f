# Runs the Python client of the gateway's document unmodified: python documented.py FILE URL, with
# the code from the document. Only the default of its `url` is replaced, from outside.
import asyncio
import importlib.util
import sys

spec = importlib.util.spec_from_file_location("documented_client", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
assert module.LLMGatewayClient.__init__.__defaults__ == ("ws://localhost:9400",)
module.LLMGatewayClient.__init__.__defaults__ = (sys.argv[2],)
asyncio.run(module.main())
