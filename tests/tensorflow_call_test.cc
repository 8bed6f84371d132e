#include "python/bindings/tensorflow_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/fake_byteps.h"

namespace byteps::python {

// TensorFlow's own types, of which the package sees pointers only.
struct tensorflow::Status {
  StatusCode code = StatusCode::kOk;
  std::string message;
};
struct tensorflow::Tensor {
  std::vector<int64_t> shape;
  std::array<int32_t, 4> values{};
  int holders = 0;
};
struct tensorflow::KernelContext {
  std::vector<Tensor*> inputs;  // the last one is the gate
  std::array<Tensor, 2> outputs;
  std::vector<std::string> failures;
  StatusCode code = StatusCode::kOk;
  bool has_no_memory = false;
};

namespace {

namespace tf = tensorflow;
using ::testing::ElementsAre;
using testing::FakeJob;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void FillStatus(tf::Api& api) {
  api.make_status = [] { return std::make_unique<tf::Status>().release(); };
  api.delete_status = [](tf::Status* status) { std::unique_ptr<tf::Status>{status}.reset(); };
  api.set_status = [](tf::Status* status, StatusCode code, const char* message) {
    *status = {code, message};
  };
  api.get_code = [](const tf::Status* status) { return status->code; };
  api.message = [](const tf::Status* status) { return status->message.c_str(); };
  api.fail = [](tf::KernelContext* context, tf::Status* status) {
    context->failures.push_back(status->message);
    context->code = status->code;
  };
}

void FillTensors(tf::Api& api) {
  api.input_count = [](tf::KernelContext* context) {
    return static_cast<int>(context->inputs.size());
  };
  api.get_input = [](tf::KernelContext* context, int i, tf::Tensor** tensor, tf::Status*) {
    *tensor = context->inputs[static_cast<size_t>(i)];
    ++(*tensor)->holders;
  };
  api.output_type = [](tf::KernelContext*, int) { return 3; };
  api.allocate_output = [](tf::KernelContext* context, int i, int, const int64_t* dimensions,
                           int count, size_t, tf::Status* status) -> tf::Tensor* {
    if (context->has_no_memory) {
      status->code = StatusCode::kUnknown;
      return nullptr;
    }
    tf::Tensor& output = context->outputs[static_cast<size_t>(i)];
    output.shape.assign(dimensions, dimensions + count);
    ++output.holders;
    return &output;
  };
  api.forward_or_allocate = [](tf::KernelContext* context, const int* inputs, int, int,
                               const int64_t*, int, int* forwarded, tf::Status*) {
    *forwarded = *inputs;
    tf::Tensor* tensor = context->inputs[static_cast<size_t>(*inputs)];
    EXPECT_EQ(tensor->holders, 0);  // otherwise TensorFlow makes a new tensor
    ++tensor->holders;
    return tensor;
  };
  api.type_size = [](int) { return sizeof(int32_t); };
  api.tensor_type = [](const tf::Tensor*) { return 3; };
  api.dimensions = [](const tf::Tensor* tensor) { return static_cast<int>(tensor->shape.size()); };
  api.dimension = [](const tf::Tensor* tensor, int i) {
    return tensor->shape[static_cast<size_t>(i)];
  };
  api.data = [](const tf::Tensor* tensor) -> void* {
    return const_cast<int32_t*>(tensor->values.data());
  };
  api.delete_tensor = [](tf::Tensor* tensor) { --tensor->holders; };
}

class KernelRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    FillStatus(api_);
    FillTensors(api_);
    job_.complete_at_once = false;
    const std::string setting = job_.Setting();
    const std::array<const char*, 1> settings{setting.c_str()};
    ASSERT_EQ(byteps_open(settings.data(), settings.size(), &session_, nullptr), BYTEPS_OK);
  }
  void TearDown() override {
    byteps_close(session_);
    EXPECT_EQ(first_.holders + second_.holders + context_.outputs[0].holders, 0);
  }

  // Begins one run with this number of parts, which has taken their tensors.
  void Make(tf::Kind kind, int parts) {
    run_ = std::make_shared<tf::KernelRun>(api_, kind, parts, &context_, [this] { ++done_; });
    ASSERT_EQ(run_->TakeTensors(), "");
    for (int i = 0; i < parts; ++i) {
      parts_.push_back(std::make_shared<tf::KernelPart>(run_, i, "text"));
    }
  }

  void Start(int part, const char* name, byteps_op op) {
    byteps_request request{};
    request.name = name;
    request.op = op;
    request.dtype = BYTEPS_INT32;
    const std::array<int64_t, 1> shape{2};
    request.shape = shape.data();
    request.dimensions = 1;
    request.input = first_.values.data();
    byteps_handle handle = 0;
    ASSERT_EQ(StartFor(parts_[static_cast<size_t>(part)], session_, request, &handle, nullptr),
              BYTEPS_OK);
  }

  tf::Api api_{};
  FakeJob job_;
  byteps_session* session_ = nullptr;
  tf::Tensor first_{{2}, {1, 2, 0, 0}}, second_{{3}, {4, 5, 6, 0}}, gate_;
  tf::KernelContext context_{{&first_, &second_, &gate_}, {}, {}, StatusCode::kOk, false};
  std::shared_ptr<tf::KernelRun> run_;
  std::vector<std::shared_ptr<tf::KernelPart>> parts_;
  int done_ = 0;
};

TEST_F(KernelRunTest, EndsOnceWhenAllItsPartsHave) {
  Make(tf::Kind::kSame, 2);
  Start(0, "a", BYTEPS_SUM);
  Start(1, "b", BYTEPS_SUM);
  job_.Complete(2);
  EXPECT_EQ(done_, 0);
  job_.Complete(1);
  EXPECT_EQ(done_, 1);
  EXPECT_THAT(context_.failures, IsEmpty());
}

TEST_F(KernelRunTest, APartHasItsTensorAndItsOutputInTheSameMemory) {
  Make(tf::Kind::kSame, 2);
  const auto place = reinterpret_cast<uintptr_t>(second_.values.data());
  EXPECT_THAT(parts_[1]->inputs(), ElementsAre(tf::KernelRun::Place(3, {3}, place)));
  EXPECT_EQ(parts_[1]->Output({3}), place);
  parts_[0]->Fail(BYTEPS_INTERNAL, "");
  parts_[1]->Fail(BYTEPS_INTERNAL, "");
}

TEST_F(KernelRunTest, TheFirstErrorIsThatOfTheKernelWhichWaitsForTheRest) {
  Make(tf::Kind::kSame, 2);
  Start(0, "a", BYTEPS_SUM);
  parts_[1]->Fail(BYTEPS_MISMATCH, "ranks disagree");
  EXPECT_EQ(done_, 0);
  job_.Complete(1, BYTEPS_PEER_LOST);
  EXPECT_EQ(done_, 1);
  EXPECT_THAT(context_.failures, ElementsAre("byteps error 2: ranks disagree"));
  EXPECT_EQ(context_.code, StatusCode::kFailedPrecondition);
}

TEST_F(KernelRunTest, RowsBecomeOutputsWithTheirCounts) {
  Make(tf::Kind::kRows, 1);
  parts_[0]->ExpectResult();
  Start(0, "rows", BYTEPS_ALLGATHER);
  job_.operations.at(1).received_splits = {1, 1};
  job_.Complete(1);
  EXPECT_EQ(done_, 1);
  EXPECT_THAT(context_.failures, IsEmpty());
  EXPECT_THAT(context_.outputs[0].shape, ElementsAre(2));
  EXPECT_THAT(context_.outputs[0].values, ElementsAre(1, 2, 0, 0));
  EXPECT_THAT(context_.outputs[1].values, ElementsAre(1, 1, 0, 0));
}

TEST_F(KernelRunTest, WithoutMemoryForRowsTheKernelFails) {
  Make(tf::Kind::kRows, 1);
  context_.has_no_memory = true;
  parts_[0]->ExpectResult();
  Start(0, "rows", BYTEPS_ALLGATHER);
  job_.Complete(1);
  EXPECT_EQ(done_, 1);
  ASSERT_EQ(context_.failures.size(), 1u);
  EXPECT_THAT(context_.failures[0], HasSubstr("no memory"));
}

TEST_F(KernelRunTest, ANumberIsAnAnswerAtOnce) {
  context_.inputs.clear();
  Make(tf::Kind::kNumber, 1);
  parts_[0]->Answer(7);
  EXPECT_EQ(done_, 1);
  EXPECT_EQ(context_.outputs[0].values[0], 7);
}

TEST_F(KernelRunTest, KnowsWhetherItCanCopyWhatTensorFlowCalls) {
  api_.run_done = [](tf::Done* done) { (*reinterpret_cast<tf::OwnDone*>(done))(); };
  EXPECT_TRUE(tf::CanCopyDone(api_));
  api_.run_done = [](tf::Done*) {};
  EXPECT_FALSE(tf::CanCopyDone(api_));
}

}  // namespace
}  // namespace byteps::python
