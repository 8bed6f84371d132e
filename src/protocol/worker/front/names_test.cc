#include "src/protocol/worker/front/names.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

wire::TensorSpec SpecOf(wire::Op op, std::vector<int64_t> shape) {
  return {op, DataType::kUint8, 0, std::move(shape)};
}

class NamesTest : public testing::Test {
 protected:
  Tensor& Declare(const std::string& name, uint32_t process_set, const wire::TensorSpec& spec,
                  TensorId id) {
    Tensor& tensor = Names::TensorOf(Names::LifetimeOf(names.NameOf(name), process_set), spec);
    names.SetDeclared(tensor, {name, process_set, 0, id, {0, 1}});
    return tensor;
  }

  Names names;
};

TEST_F(NamesTest, ANameKeepsItsPlaceInTheOrder) {
  Name& first = names.NameOf("b");
  names.NameOf("a");
  EXPECT_EQ(&names.NameOf("b"), &first);
  ASSERT_EQ(names.in_order().size(), 2U);
  EXPECT_EQ(names.in_order()[0]->text, "b");
  EXPECT_EQ(names.in_order()[1]->order, 1U);
  EXPECT_EQ(names.Find("c"), nullptr);
  names.Clear();
  EXPECT_EQ(names.Find("b"), &first);
}

TEST_F(NamesTest, ALifetimeForEachProcessSetAndATensorForEachSpec) {
  Name& name = names.NameOf("x");
  Lifetime& everybody = Names::LifetimeOf(name, 0);
  Lifetime& some = Names::LifetimeOf(name, 4);
  EXPECT_NE(&everybody, &some);
  Tensor& sum = Names::TensorOf(everybody, SpecOf(wire::Op::kSum, {8}));
  EXPECT_EQ(&Names::TensorOf(everybody, SpecOf(wire::Op::kSum, {8})), &sum);
  EXPECT_NE(&Names::TensorOf(everybody, SpecOf(wire::Op::kSum, {9})), &sum);
  EXPECT_EQ(sum.spec, SpecOf(wire::Op::kSum, {8}));
  EXPECT_EQ(&sum.lifetime, &everybody);
  EXPECT_EQ(names.FindLifetime({"x", {4, 0, 1}}), &some);
  EXPECT_EQ(names.FindLifetime({"x", {5, 0, 1}}), nullptr);
  EXPECT_EQ(names.FindLifetime({"y", {0, 0, 1}}), nullptr);
}

TEST_F(NamesTest, TheNextAttemptKnowsNoTensorButTheOneThatIsOpen) {
  Tensor& open = Declare("x", 0, SpecOf(wire::Op::kSum, {8}), 7);
  Declare("x", 0, SpecOf(wire::Op::kMax, {8}), 8);
  Declare("x", 4, SpecOf(wire::Op::kMax, {8}), 9);
  PlacedSet set;
  open.task = std::make_unique<Task>(Operation(), open.spec, set, open.deal);
  Lifetime& lifetime = open.lifetime;
  lifetime.round = 3;
  lifetime.failing.emplace();
  std::vector<TensorId> retired = names.Undeclare(lifetime);
  std::sort(retired.begin(), retired.end());
  EXPECT_EQ(retired, (std::vector<TensorId>{7, 8}));
  EXPECT_EQ(lifetime.attempt, 1U);
  EXPECT_EQ(lifetime.round, 0U);
  EXPECT_FALSE(lifetime.failing.has_value());
  ASSERT_EQ(lifetime.tensors.size(), 1U);
  EXPECT_FALSE(open.declared);
  EXPECT_EQ(names.ById(7), nullptr);
  EXPECT_NE(names.ById(9), nullptr) << "of another process set";
  EXPECT_TRUE(names.Undeclare(lifetime).empty());
}

TEST_F(NamesTest, AGenerationForgetsWhatIsDeclared) {
  Declare("x", 0, SpecOf(wire::Op::kSum, {8}), 7);
  int tensors = 0;
  names.ForEachTensor([&](const Tensor&) { ++tensors; });
  EXPECT_EQ(tensors, 1);
  names.Clear();
  names.ForEachTensor([&](const Tensor&) { ++tensors; });
  EXPECT_EQ(tensors, 1);
  EXPECT_EQ(names.ById(7), nullptr);
}

TEST_F(NamesTest, WhatLanesAreToldOfAnExchange) {
  names.NameOf("before");
  wire::TensorSpec spec = SpecOf(wire::Op::kBroadcast, {128});
  spec.root = 5;
  spec.process_set = 4;
  Tensor& tensor = Declare("x", 4, spec, 7);
  tensor.round = 3;
  PlacedSet set;
  set.present = {2, 5};
  set.slot_of = {2, 4};
  set.self = 0;
  Operation operation;
  operation.priority = 9;
  tensor.task = std::make_unique<Task>(operation, tensor.spec, set, tensor.deal);
  tensor.task->path = PathOf(false, false);
  DealOptions options{{1}, 4096, 2};
  ASSERT_TRUE(tensor.deal.Cut(options, "x", 0, {128, {}}, 64, true).ok());
  Exchange exchange = tensor.MakeExchange();
  EXPECT_EQ(exchange.name, "x");
  EXPECT_EQ(exchange.tensor.id, 7U);
  EXPECT_EQ(exchange.tensor.combine, Combine::kOverlay);
  EXPECT_EQ(exchange.tensor.process_set, 4U);
  EXPECT_EQ(exchange.use, 3U);
  EXPECT_EQ(exchange.order, 1U);
  EXPECT_EQ(exchange.priority, 9);
  EXPECT_EQ(exchange.count, 2U);
  EXPECT_EQ(exchange.root, Slot{4}) << "the slot of rank 5";
  EXPECT_EQ(exchange.spans, tensor.task.get());
  EXPECT_FALSE(exchange.others_wait);
}

}  // namespace
}  // namespace byteps::protocol
