#include "src/protocol/shard/state/numbered_answers.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace byteps::protocol {
namespace {

TEST(NumberedAnswersTest, AnAcknowledgementStandsForAllBefore) {
  NumberedAnswers answers;
  for (uint32_t tensor = 1; tensor <= 3; ++tensor) {
    EXPECT_EQ(answers.Add({{tensor, 0, 1}, 1}), tensor);
  }
  EXPECT_EQ(answers.NextAcknowledged(2)->ref.tensor, 1u);
  EXPECT_EQ(answers.NextAcknowledged(2)->ref.tensor, 2u);
  EXPECT_FALSE(answers.NextAcknowledged(2).has_value());
  EXPECT_FALSE(answers.NextAcknowledged(1).has_value()) << "an old one";
  EXPECT_EQ(answers.NextAcknowledged(99)->ref.tensor, 3u);
  EXPECT_FALSE(answers.NextAcknowledged(99).has_value());
}

TEST(NumberedAnswersTest, OnlyTheOldestStableOnesAreForgotten) {
  NumberedAnswers answers;
  for (uint32_t tensor = 1; tensor <= 3; ++tensor) answers.Add({{tensor, 0, 1}, 1});
  auto is_not = [](uint32_t unstable) {
    return [unstable](const Answered& answered) { return answered.ref.tensor != unstable; };
  };
  EXPECT_EQ(answers.ForgetStable(is_not(2)), 1u);
  EXPECT_EQ(answers.NextAcknowledged(3)->ref.tensor, 2u) << "1 is forgotten";
  EXPECT_EQ(answers.ForgetStable(is_not(9)), 3u);
  EXPECT_FALSE(answers.NextAcknowledged(3).has_value());
}

TEST(NumberedAnswersTest, ANewConnectionCountsFromOne) {
  NumberedAnswers answers;
  answers.Add({{1, 0, 1}, 1});
  EXPECT_TRUE(answers.LookForNew());
  EXPECT_FALSE(answers.LookForNew());
  answers.NoteStableTold(1);
  answers.Restart();
  EXPECT_EQ(answers.stable_told(), 0u);
  EXPECT_EQ(answers.Add({{2, 0, 1}, 1}), 1u);
}

// Acknowledgements and forgetting come in any order. Each answer is returned at most once and in
// order, and only forgotten answers are left out.
RC_GTEST_PROP(NumberedAnswersTest, EachIsAcknowledgedOnceInOrder, ()) {
  NumberedAnswers answers;
  std::vector<bool> stable;  // by number, from 1
  uint64_t forgotten = 0;
  uint64_t acknowledged = 0;
  const int steps = *rc::gen::inRange(1, 40);
  for (int step = 0; step < steps; ++step) {
    const uint64_t number = *rc::gen::inRange<uint64_t>(0, stable.size() + 3);
    switch (*rc::gen::inRange(0, 4)) {
      case 0:
      case 1:
        stable.push_back(false);
        RC_ASSERT(answers.Add({{static_cast<TensorId>(stable.size()), 0, 1}, 1}) == stable.size());
        break;
      case 2: {
        acknowledged = std::max(acknowledged, std::min(number, forgotten));
        while (auto answered = answers.NextAcknowledged(number)) {
          RC_ASSERT(answered->ref.tensor == ++acknowledged);
        }
        RC_ASSERT(acknowledged >= std::min<uint64_t>(number, stable.size()));
        break;
      }
      default:
        if (number > 0 && number <= stable.size()) stable[number - 1] = true;
        while (forgotten < stable.size() && stable[forgotten]) ++forgotten;
        RC_ASSERT(answers.ForgetStable([&](const Answered& one) {
          return stable[one.ref.tensor - 1];
        }) == forgotten);
    }
    RC_ASSERT(answers.sent() == stable.size());
    if (number > 0 && number <= stable.size()) {
      RC_ASSERT(answers.Keeps({static_cast<TensorId>(number), 0, 1}) == (number > forgotten));
    }
  }
}

}  // namespace
}  // namespace byteps::protocol
