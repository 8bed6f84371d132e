# What `cmake --install` puts below its prefix: the headers, the library, the two programs, and what
# find_package(byteps) and `pkg-config byteps` read. All of it may be moved as a whole.
function(byteps_install)
  include(GNUInstallDirs)
  include(CMakePackageConfigHelpers)

  # Before 1.0 each minor version may change the interface.
  set_target_properties(byteps PROPERTIES VERSION ${PROJECT_VERSION}
                        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  file(RELATIVE_PATH from_programs ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(bps-server bps-scheduler PROPERTIES
                        INSTALL_RPATH "$ORIGIN/${from_programs}")
  install(TARGETS byteps EXPORT byteps LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(TARGETS bps-server bps-scheduler RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY include/byteps DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

  # The exported target is all that a package file has to say: nothing else need be found.
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/byteps)
  install(EXPORT byteps NAMESPACE byteps:: DESTINATION ${package} FILE byteps-config.cmake)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/byteps-config-version.cmake
                                   COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/byteps-config-version.cmake DESTINATION ${package})

  file(RELATIVE_PATH prefix_from_pc ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" prefix_from_pc ${prefix_from_pc})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/byteps.pc.in ${PROJECT_BINARY_DIR}/byteps.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/byteps.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
