// Asks the real NCCL what the library needs to know, on a machine without a GPU. `./dev lane nccl`
// runs it.
//
//   real_nccl FILE
#include <cstdio>
#include <string>

#include "src/device/nccl/library.h"
#include "src/device/nccl/nccl_groups.h"

namespace byteps::device::nccl {
namespace {

bool Expect(bool is_so, const std::string& what) {
  std::printf("%s %s\n", is_so ? "ok    " : "FAILED", what.c_str());
  return is_so;
}

// Returns the number of answers that are not as expected.
int Check(const std::string& file) {
  int wrong = 0;
  auto expect = [&](bool is_so, const std::string& what) { wrong += Expect(is_so, what) ? 0 : 1; };
  Result<Library::Facts> facts = Library::Look(file);
  expect(facts.ok(),
         facts.ok() ? "NCCL " + facts->version + " in " + facts->file : facts.status().ToString());
  Result<std::unique_ptr<Groups>> found = FindGroups(file);
  expect(found.ok(), "every function is there");
  if (!found.ok()) return wrong;
  Groups& groups = *found.value();
  Result<GroupId> one = groups.NewId();
  Result<GroupId> other = groups.NewId();
  expect(one.ok() && other.ok() && one.value() != other.value(), "names of groups differ");
  const Library library = Library::Load(file).value();
  expect(library.Check(kInProgress, "a call", nullptr).ok(),
         "a call that is under way is no error");
  const std::string text = library.Check(kInvalidUsage, "a call", nullptr).message();
  expect(text.find("invalid usage") != std::string::npos, "the text of an error: " + text);
  if (!one.ok()) return wrong;
  Result<std::unique_ptr<Communicator>> joined = groups.Join(one.value(), 0, 1);
  expect(!joined.ok(), "no group without a GPU: " +
                           (joined.ok() ? "it has begun one" : joined.status().message()));
  return wrong;
}

}  // namespace
}  // namespace byteps::device::nccl

int main(int count, char** arguments) {
  if (count == 2) return byteps::device::nccl::Check(arguments[1]) == 0 ? 0 : 1;
  std::fprintf(stderr, "usage: real_nccl FILE\n");
  return 2;
}
