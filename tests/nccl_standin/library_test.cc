// Tests of the library with an NCCL that is missing, too old, or of which a part is missing.
#include "src/device/nccl/library.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "src/device/nccl/nccl_groups.h"
#include "tests/cuda_standin/standin_for_test.h"
#include "tests/nccl_standin/standin_for_test.h"

namespace byteps::device::nccl {
namespace {

std::string WhyNot(const std::string& library) {
  Result<Library> found = Library::Load(library);
  EXPECT_FALSE(found.ok());
  if (found.ok()) return "";
  EXPECT_EQ(found.status().code(), StatusCode::kUnavailable);
  return found.status().message();
}

std::string Beside(const char* name) {
  return (std::filesystem::path(standin::NcclPath()).parent_path() / name).string();
}

void ExpectParts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

TEST(NcclLibrary, AMissingLibraryIsOneSentence) {
  ExpectParts(WhyNot("/nowhere/libnccl.so.2"), {"/nowhere/libnccl.so.2", "install"});
}

TEST(NcclLibrary, AnOldLibraryIsToldWithItsVersion) {
  ExpectParts(WhyNot(Beside("libbyteps_nccl_standin_old.so")),
              {"libbyteps_nccl_standin_old.so", "version 2.18.5", "older than version 2.19.0",
               "install a newer NCCL"});
}

TEST(NcclLibrary, AMissingFunctionIsToldWithVersions) {
  ExpectParts(WhyNot(Beside("libbyteps_nccl_standin_part.so")),
              {"libbyteps_nccl_standin_part.so", "version 2.28.3", "ncclGetLastError",
               "since version 2.13.0", "install a newer NCCL"});
}

TEST(NcclLibrary, ALibraryThatIsNotNcclIsToldWithItsFile) {
  ExpectParts(WhyNot(standin::LibraryPath()),
              {"libbyteps_cuda_standin.so", "version unknown", "ncclGetVersion"});
}

TEST(NcclLibrary, SaysWhichOneItHasFound) {
  const standin::NoGroupsLeft nothing;
  nccl_stand_in_version(22907);
  Result<Library> found = Library::Load(standin::NcclPath());
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->version(), "2.29.7");
  EXPECT_EQ(found->version_code(), 22907);
  EXPECT_EQ(std::filesystem::path(found->file()).filename(), "libbyteps_nccl_standin.so");
  EXPECT_EQ(FindGroups(standin::NcclPath()).value()->name(), "NCCL 2.29.7");
}

// A program's own NCCL, which torch brings, has the name under which the system's loader knows it.
TEST(NcclLibrary, TakesTheOneThatTheProcessHas) {
  const standin::NoGroupsLeft nothing;
  void* const own = dlopen(Beside("named/libnccl.so.2").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(own, nullptr) << dlerror();
  Result<Library> found = Library::Load("");
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->file(), Beside("named/libnccl.so.2"));
  EXPECT_EQ(found->version(), "2.30.1");
  dlclose(own);
}

// Otherwise torch, which comes later, would get the wrong one.
TEST(NcclLibrary, ALookLeavesNoLibraryBehind) {
  const std::string file = Beside("libbyteps_nccl_standin_look.so");
  ASSERT_EQ(dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
  Result<Library::Facts> found = Library::Look(file);
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->version_code, 22100);
  EXPECT_EQ(found->version, "2.21.0");
  EXPECT_EQ(found->file, file);
  EXPECT_EQ(dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
  EXPECT_EQ(Library::Look("/nowhere").status().code(), StatusCode::kUnavailable);
}

TEST(NcclLibrary, AnErrorHasTheTextsOfNccl) {
  const standin::NoGroupsLeft nothing;
  nccl_stand_in_fail("ncclGetUniqueId", 1, kSystemError);
  Result<GroupId> id = FindGroups(standin::NcclPath()).value()->NewId();
  ASSERT_FALSE(id.ok());
  EXPECT_EQ(id.status().code(), StatusCode::kUnavailable);
  ExpectParts(id.status().message(),
              {"the name of a group", "NCCL 2.28.3", "unhandled system error", "(2)"});
}

TEST(NcclLibrary, NamesOfGroupsDiffer) {
  const standin::NoGroupsLeft nothing;
  std::unique_ptr<Groups> groups = FindGroups(standin::NcclPath()).value();
  EXPECT_NE(groups->NewId().value(), groups->NewId().value());
  nccl_stand_in_reset();  // closes them
}

}  // namespace
}  // namespace byteps::device::nccl
