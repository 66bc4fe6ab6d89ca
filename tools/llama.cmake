# Leaves out of llama.cpp's build all that nothing here loads: first of all its library `common` (chat parsers, an HTTP
# client), which is half of the compiling. llama-cpp-python's CMakeLists.txt includes this file at its project() when
# CMAKE_ARGS has -DCMAKE_PROJECT_llama_cpp_INCLUDE=/path/to/this/file. It then forces the cache entry LLAMA_BUILD_COMMON to
# ON, but a normal variable wins over a cache entry of the same name (CMake's policies CMP0126 and CMP0077).
set(LLAMA_BUILD_COMMON OFF)

# Warnings about somebody else's sources; looking for them is work too.
set(LLAMA_ALL_WARNINGS OFF)

# llama.cpp installs its libraries into site-packages/lib, and llama-cpp-python a second time into its own folder, from where
# they are loaded: once is enough.
set(CMAKE_INSTALL_LIBDIR llama_cpp/lib)
