#include "src/protocol/worker/front/idle_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace byteps::protocol {
namespace {

// A program that uses tensors one after the other, and at once forgets the tensors that it lets go
// of.
class Program {
 public:
  explicit Program(uint64_t patience_min) : idle_(patience_min) {}

  void Use(TensorId tensor) {
    const bool is_new = !last_.contains(tensor);
    asked_ += is_new ? 1 : 0;
    const uint64_t number = idle_.Begin(is_new ? 0 : last_[tensor]);
    last_[tensor] = number;
    idle_.End(number, tensor);
    for (TensorId one : idle_.TakeIdle()) {
      EXPECT_EQ(last_.erase(one), 1U) << one << " was let go of twice";
    }
    most_ = std::max(most_, last_.size());
  }
  size_t held() const { return last_.size(); }
  size_t most() const { return most_; }
  uint64_t asked() const { return asked_; }
  bool Holds(TensorId tensor) const { return last_.contains(tensor); }
  const IdleTensors& idle() const { return idle_; }

 private:
  IdleTensors idle_;
  std::map<TensorId, uint64_t> last_;
  size_t most_ = 0;
  uint64_t asked_ = 0;
};

TEST(IdleTensorsTest, NamesThatComeOnceCostNothingThatStays) {
  Program program(64);
  for (TensorId name = 1; name <= 1000; ++name) program.Use(name);
  const size_t then = program.most();
  for (TensorId name = 1001; name <= 100000; ++name) program.Use(name);
  EXPECT_LE(program.most(), then + 16U) << "probes may come for a while";
  EXPECT_LE(program.most(), 64U + 16 + 8);
}

TEST(IdleTensorsTest, WhatIsUsedInTurnStays) {
  for (TensorId count : {10U, 63U, 1000U, 1023U}) {
    Program program(64);
    for (int step = 0; step < 50; ++step) {
      for (TensorId name = 1; name <= count; ++name) program.Use(name);
    }
    EXPECT_EQ(program.held(), count);
    EXPECT_LE(program.asked(), 3U * count) << "it learns in a step how long the pauses are";
    const uint64_t asked = program.asked();
    for (TensorId name = 1; name <= count; ++name) program.Use(name);
    EXPECT_EQ(program.asked(), asked);
  }
}

TEST(IdleTensorsTest, TrialsOneAfterTheOtherKeepTheMemoryOfFew) {
  Program program(64);
  TensorId first = 1;
  for (int trial = 0; trial < 500; ++trial, first += 100) {
    for (int step = 0; step < 5; ++step) {
      for (TensorId name = first; name < first + 100; ++name) program.Use(name);
    }
  }
  EXPECT_LE(program.most(), 700U);
}

TEST(IdleTensorsTest, AnOperationThatHasNotEndedIsNotIdle) {
  IdleTensors idle(4);
  idle.Begin(0);
  uint64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    last = idle.Begin(last);
    for (TensorId one : idle.TakeIdle()) EXPECT_EQ(one, 7U);
    idle.End(last, 7);
  }
  idle.End(1, 9);
  std::set<TensorId> taken;
  for (int i = 0; i < 100; ++i) {
    last = idle.Begin(last);
    for (TensorId one : idle.TakeIdle()) taken.insert(one);
    idle.End(last, 7);
  }
  EXPECT_EQ(taken, std::set<TensorId>{9});
}

TEST(IdleTensorsTest, PatienceHasABound) {
  IdleTensors idle(64);
  EXPECT_EQ(idle.patience(), 64U);
  uint64_t first = idle.Begin(0);
  for (int i = 0; i < 1'000'000; ++i) idle.Begin(0);
  idle.Begin(first);
  EXPECT_EQ(idle.patience(), IdleTensors::kPatienceMax);
  idle.Clear();
  EXPECT_EQ(idle.patience(), 64U);
}

}  // namespace
}  // namespace byteps::protocol
