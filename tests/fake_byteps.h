// The C interface without a job behind it, for tests of the code on top of it. Operations stay open
// until the test completes them. Completion callbacks come on the thread that completes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "byteps/byteps.h"

namespace byteps::testing {

// The request of one operation, and the end that the test gives it.
struct FakeOperation {
  std::string name;
  byteps_op op;
  byteps_dtype dtype;
  std::vector<int64_t> shape;
  const void* input;
  void* output;
  int32_t root_rank;
  int32_t priority;
  byteps_on_complete on_complete;
  void* context;
  std::vector<int64_t> received_splits = {};  // of an allgather, if the test sets them
  bool complete = false;
  byteps_code outcome = BYTEPS_OK;
  bool released = false;
};

// The state of the fake. The test owns it and hands it to byteps_open with Setting().
struct FakeJob {
  // Returns a setting that leads byteps_open to this object.
  std::string Setting() const;

  // Ends an operation with this outcome.
  void Complete(byteps_handle handle, byteps_code outcome = BYTEPS_OK);

  bool complete_at_once = true;
  byteps_code refuse_with = BYTEPS_OK;  // for byteps_open and byteps_start
  std::vector<std::string> settings;
  std::vector<std::string> declared;
  std::map<byteps_handle, FakeOperation> operations;
  std::vector<std::string> reasons;  // given to byteps_give_up
  int shutdowns = 0;
  int closes = 0;
};

}  // namespace byteps::testing
