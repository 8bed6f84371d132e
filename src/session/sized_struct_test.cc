#include "src/session/sized_struct.h"

#include <gtest/gtest.h>

#include <string>

namespace byteps::session {
namespace {

// The struct of a later header.
struct LaterRequest {
  byteps_request request;
  int64_t later = 0;
};
struct LaterResult {
  byteps_result result;
  int64_t later = 77;
};

// Makes a struct that names another size than this header's; the memory has that size.
template <typename Struct>
Struct OfSize(size_t size) {
  Struct made{};
  made.struct_size = size;
  return made;
}

TEST(SizedStructTest, TheHeaderFillsInItsSize) {
  EXPECT_EQ(byteps_request{}.struct_size, sizeof(byteps_request));
  EXPECT_EQ(byteps_result{}.struct_size, sizeof(byteps_result));
  EXPECT_EQ(byteps_speed{}.struct_size, sizeof(byteps_speed));
  EXPECT_EQ(byteps_job_info{}.struct_size, sizeof(byteps_job_info));
  EXPECT_EQ(byteps_sums{}.struct_size, sizeof(byteps_sums));
  EXPECT_EQ(byteps_error{}.struct_size, sizeof(byteps_error));
}

TEST(SizedStructTest, ASizeThatCannotBeIsSaid) {
  for (size_t size : {size_t{0}, size_t{8}, offsetof(byteps_request, combine) - 8,
                      sizeof(byteps_request) - 1, kStructBytesMax + 8, SIZE_MAX}) {
    const Status checked = CheckSize(OfSize<byteps_request>(size));
    EXPECT_EQ(checked.code(), StatusCode::kInvalidArgument) << size;
    EXPECT_NE(checked.message().find(std::to_string(size)), std::string::npos);
    EXPECT_NE(checked.message().find("sizeof(byteps_request)"), std::string::npos);
  }
}

// These are the numbers of published headers: a change breaks programs.
TEST(SizedStructTest, TheFirstSizesStayAsTheyWere) {
  EXPECT_EQ(SizedStruct<byteps_request>::kBytesMin, 64u);
  EXPECT_EQ(SizedStruct<byteps_result>::kBytesMin, 40u);
  EXPECT_EQ(SizedStruct<byteps_speed>::kBytesMin, 32u);
  EXPECT_EQ(SizedStruct<byteps_error>::kBytesMin, 64u);
  EXPECT_EQ(offsetof(byteps_error, message), 12u);
  EXPECT_EQ(SizedStruct<byteps_job_info>::kBytesMin, 24u);
  EXPECT_EQ(SizedStruct<byteps_device_info>::kBytesMin, 272u);
  EXPECT_EQ(SizedStruct<byteps_nccl_info>::kBytesMin, 560u);
  EXPECT_EQ(offsetof(byteps_request, stream), 112u);
  EXPECT_EQ(SizedStruct<byteps_sums>::kBytesMin, 520u);
  EXPECT_EQ(offsetof(byteps_request, on_complete), 120u);
  EXPECT_EQ(offsetof(byteps_request, limit_ms), 136u);
}

TEST(SizedStructTest, NothingIsReadBeyondTheSize) {
  byteps_request request{};
  request.name = "w";
  request.priority = 5;
  request.process_set = 7;
  request.context = &request;
  request.struct_size = offsetof(byteps_request, combine);
  Result<byteps_request> own = ReadSized(request);
  ASSERT_TRUE(own.ok());
  EXPECT_STREQ(own->name, "w");
  EXPECT_EQ(own->priority, 5);
  EXPECT_EQ(own->process_set, 0);
  EXPECT_EQ(own->context, nullptr);
}

TEST(SizedStructTest, ALaterProgramMaySetOnlyWhatIsKnown) {
  LaterRequest later{};
  later.request.struct_size = sizeof(LaterRequest);
  later.request.process_set = 7;
  Result<byteps_request> own = ReadSized(later.request);
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(own->process_set, 7);
  later.later = 1;
  EXPECT_EQ(ReadSized(later.request).status().code(), StatusCode::kInvalidArgument);
}

TEST(SizedStructTest, NothingIsWrittenBeyondTheSize) {
  byteps_result own{};
  own.members = 4;
  own.received_split_count = 9;
  byteps_result older{};
  older.struct_size = offsetof(byteps_result, received_splits);
  older.received_split_count = 1234;
  WriteSized(own, &older);
  EXPECT_EQ(older.members, 4u);
  EXPECT_EQ(older.struct_size, offsetof(byteps_result, received_splits));
  EXPECT_EQ(older.received_split_count, 1234u);
}

TEST(SizedStructTest, WhatALaterProgramExpectsIsZero) {
  byteps_result own{};
  own.members = 4;
  LaterResult later{};
  later.result.struct_size = sizeof(LaterResult);
  WriteSized(own, &later.result);
  EXPECT_EQ(later.result.members, 4u);
  EXPECT_EQ(later.result.struct_size, sizeof(LaterResult));
  EXPECT_EQ(later.later, 0);
}

}  // namespace
}  // namespace byteps::session
