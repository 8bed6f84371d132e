# byteps_install_development(LIBRARIES HEADERS SHARED COMPONENT): headers, and what find_package and
# pkg-config read. The arguments are folders below the prefix; all of it may be moved as a whole.
function(byteps_install_development libraries headers shared component)
  include(CMakePackageConfigHelpers)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/byteps DESTINATION ${headers}
          COMPONENT ${component})

  # The exported target is all that a package file has to say: nothing else need be found.
  set(package ${shared}/cmake/byteps)
  install(EXPORT byteps NAMESPACE byteps:: DESTINATION ${package} FILE byteps-config.cmake
          COMPONENT ${component})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/byteps-config-version.cmake
                                   COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/byteps-config-version.cmake DESTINATION ${package}
          COMPONENT ${component})

  file(RELATIVE_PATH prefix_from_pc /prefix/${shared}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" prefix_from_pc ${prefix_from_pc})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/byteps.pc.in ${PROJECT_BINARY_DIR}/byteps.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/byteps.pc DESTINATION ${shared}/pkgconfig
          COMPONENT ${component})
endfunction()

# What `cmake --install` puts below its prefix: the library, the two programs, and what others need
# to build with them.
function(byteps_install)
  include(GNUInstallDirs)

  # Before 1.0 each minor version may change the interface.
  set_target_properties(byteps PROPERTIES VERSION ${PROJECT_VERSION}
                        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  file(RELATIVE_PATH from_programs ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(bps-server bps-scheduler PROPERTIES
                        INSTALL_RPATH "$ORIGIN/${from_programs}")
  install(TARGETS byteps EXPORT byteps LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(TARGETS bps-server bps-scheduler RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  byteps_install_development(${CMAKE_INSTALL_LIBDIR} ${CMAKE_INSTALL_INCLUDEDIR}
                             ${CMAKE_INSTALL_LIBDIR} Unspecified)
endfunction()

# What a wheel has, all of it in the folder of the package, where the loader of a user's program
# does not look by itself.
function(byteps_install_wheel)
  # The build tree's run path would find these as well, but not in an installed wheel.
  set_target_properties(byteps PROPERTIES INSTALL_RPATH "$ORIGIN")
  set_target_properties(bps-server bps-scheduler PROPERTIES INSTALL_RPATH "$ORIGIN/..")
  install(TARGETS byteps_core byteps_tensorflow LIBRARY DESTINATION byteps COMPONENT python)
  install(TARGETS byteps EXPORT byteps
          LIBRARY DESTINATION byteps COMPONENT python NAMELINK_COMPONENT python
          INCLUDES DESTINATION byteps/include)
  install(TARGETS bps-server bps-scheduler RUNTIME DESTINATION byteps/bin COMPONENT python)
  set(run_path "-Wl,-rpath,\${libdir} ")
  byteps_install_development(byteps byteps/include byteps/share python)
  # `bps docs` prints them. The README is that of the repository.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION byteps/docs COMPONENT python
          FILES_MATCHING PATTERN "*.md" PATTERN "decisions" EXCLUDE PATTERN "images" EXCLUDE
          PATTERN "plots" EXCLUDE PATTERN "README.md" EXCLUDE)
  install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION byteps/docs COMPONENT python)
endfunction()
