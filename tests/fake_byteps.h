// The C interface without a job behind it, to test what is built on it: operations stay open until
// the test completes them. Completion callbacks come on the thread that completes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "byteps/byteps.h"

namespace byteps::testing {

// What one operation was asked for and how it shall end.
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
  std::vector<int64_t> received_splits = {};  // of an allgather, if the test says so
  bool complete = false;
  byteps_code outcome = BYTEPS_OK;
  bool released = false;
};

// The world as the fake sees it. The test owns it and hands it to byteps_open with Setting().
struct FakeJob {
  // A setting that leads byteps_open here.
  std::string Setting() const;

  // An operation ends so.
  void Complete(byteps_handle handle, byteps_code outcome = BYTEPS_OK);

  bool complete_at_once = true;
  byteps_code refuse_with = BYTEPS_OK;  // for byteps_open and byteps_start
  std::vector<std::string> settings;
  std::vector<std::string> declared;
  std::map<byteps_handle, FakeOperation> operations;
  int shutdowns = 0;
  int closes = 0;
};

}  // namespace byteps::testing
