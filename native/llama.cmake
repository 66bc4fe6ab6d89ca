# SRB's llama.cpp. llama-cpp-python's CMakeLists.txt includes this file at its project() when CMAKE_ARGS has
# -DCMAKE_PROJECT_llama_cpp_INCLUDE=/path/to/this/file.

# Left out is all that nothing here loads: first of all llama.cpp's library `common` (chat parsers, an HTTP client), which is half
# of the compiling. llama-cpp-python forces the cache entry LLAMA_BUILD_COMMON to ON later, but a normal variable wins over a
# cache entry of the same name (CMake's policies CMP0126 and CMP0077).
set(LLAMA_BUILD_COMMON OFF)

# Warnings about somebody else's sources; looking for them is work too.
set(LLAMA_ALL_WARNINGS OFF)

# llama.cpp installs its libraries into site-packages/lib, and llama-cpp-python a second time into its own folder, from where
# they are loaded: once is enough.
set(CMAKE_INSTALL_LIBDIR llama_cpp/lib)

# Once each, too: wheels have no links, and a library's two names with a version would be copies of it.
set(CMAKE_PLATFORM_NO_VERSIONED_SONAME ON)

# The same bytes wherever they are built: no library has the names of folders in it.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
foreach(folder "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
    add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${folder}/=>")
endforeach()

# Beside the libraries lies by which files and which arguments they were made: tools/install.py builds anew where those are others.
# The files are copied now, since they may change while llama.cpp is compiled.
set(native "${CMAKE_CURRENT_BINARY_DIR}/native")
file(REMOVE_RECURSE "${native}")
file(COPY "${CMAKE_CURRENT_LIST_DIR}/" DESTINATION "${native}"
    FILES_MATCHING PATTERN "*.cmake" PATTERN "*.h" PATTERN "*.cpp" PATTERN "*.patch")
separate_arguments(arguments UNIX_COMMAND "$ENV{CMAKE_ARGS}")
list(FILTER arguments EXCLUDE REGEX "^-DCMAKE_PROJECT_llama_cpp_INCLUDE=")  # a path, which is another in each clone
list(JOIN arguments "\n" arguments)
file(WRITE "${native}/arguments.txt" "${arguments}")
install(DIRECTORY "${native}" DESTINATION llama_cpp/lib)

# ---- patches

option(UNPATCHED_LLAMA "Build llama.cpp as it is, without the patches: slower, and without AMX. The server tells so." OFF)
if(UNPATCHED_LLAMA)
    message(STATUS "llama.cpp is built without SRB's patches")
    return()
endif()

find_program(SRB_GIT git)
if(NOT SRB_GIT)
    message(FATAL_ERROR "git is missing, which applies SRB's patches to llama.cpp; -DUNPATCHED_LLAMA=ON builds without them")
endif()
set(llama "${CMAKE_CURRENT_SOURCE_DIR}/vendor/llama.cpp")

# git applies a patch to the files below this folder, whatever repository may be around it, and whatever its user has configured.
function(apply patch)
    execute_process(
        COMMAND "${CMAKE_COMMAND}" -E env --unset=GIT_DIR --unset=GIT_WORK_TREE --unset=GIT_INDEX_FILE
            "GIT_CEILING_DIRECTORIES=${CMAKE_CURRENT_SOURCE_DIR}/vendor" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
            "${SRB_GIT}" -c core.autocrlf=false apply --whitespace=nowarn "${patch}"
        WORKING_DIRECTORY "${llama}" RESULT_VARIABLE status ERROR_VARIABLE reason)
    if(NOT status EQUAL 0)
        message(FATAL_ERROR "${patch} does not fit this llama.cpp:\n${reason}"
            "Look whether it is still needed (its line `Drop when:`), and make it anew; `python -m tools.try_llama VERSION` tries "
            "all patches. -DUNPATCHED_LLAMA=ON in CMAKE_ARGS builds without them.")
    endif()
endfunction()

# CMake may configure the same sources again: they say which patches they have.
set(done_file "${llama}/srb-patches.txt")
set(done "")
if(EXISTS "${done_file}")
    file(STRINGS "${done_file}" done)
endif()
file(GLOB patches "${native}/patches/*.patch")
list(SORT patches)
set(names "")
foreach(patch IN LISTS patches)
    get_filename_component(name "${patch}" NAME_WE)
    file(SHA256 "${patch}" hash)
    if(NOT "${name} ${hash}" IN_LIST done)
        if("${done}" MATCHES "(^|;)${name} ")
            message(FATAL_ERROR "${llama} has another version of the patch ${name}: unpack the sources anew")
        endif()
        apply("${patch}")
        file(APPEND "${done_file}" "${name} ${hash}\n")
    endif()
    string(REGEX REPLACE "^[0-9]+-" "" name "${name}")
    list(APPEND names "${name}")
endforeach()
list(JOIN names "," names)

# What the patches include and compile.
set(cpu "${llama}/ggml/src/ggml-cpu")
file(GLOB sources "${native}/*.h" "${native}/*.cpp")
foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME)
    configure_file("${source}" "${cpu}/${name}" COPYONLY)
endforeach()
file(CONFIGURE OUTPUT "${cpu}/srb_patches.h" CONTENT "#define SRB_PATCHES \"${names}\"\n" @ONLY)
message(STATUS "SRB's patches of llama.cpp: ${names}")
