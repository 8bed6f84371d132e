#include "src/plan/priority_credit_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/allocation_count_for_test.h"

namespace byteps::plan {
namespace {

using Entry = PriorityCreditQueue::Entry;
using Ticket = PriorityCreditQueue::Ticket;

constexpr uint64_t kUnlimited = UINT64_MAX;

TEST(PriorityCreditQueueTest, MostUrgentFirstThenInOrder) {
  PriorityCreditQueue queue;
  queue.Push({0, 2, 10, 1});
  queue.Push({5, 9, 10, 2});
  queue.Push({-3, 0, 10, 3});
  queue.Push({0, 1, 10, 4});
  std::vector<uint64_t> tasks;
  while (const std::optional<Entry> entry = queue.Pop(kUnlimited)) tasks.push_back(entry->task);
  EXPECT_EQ(tasks, (std::vector<uint64_t>{2, 4, 1, 3}));
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.bytes_in_flight(), 40U);
}

TEST(PriorityCreditQueueTest, CreditBoundsTheBytesInFlight) {
  PriorityCreditQueue queue;
  for (uint64_t order = 0; order < 5; ++order) queue.Push({0, order, 100, order});
  EXPECT_TRUE(queue.Pop(250).has_value());
  EXPECT_TRUE(queue.Pop(250).has_value());
  EXPECT_FALSE(queue.Pop(250).has_value());
  EXPECT_TRUE(queue.IsBlocked(250));
  EXPECT_FALSE(queue.IsBlocked(300));
  queue.Returned(100);
  EXPECT_EQ(queue.Pop(250)->task, 2U);
  EXPECT_FALSE(queue.Pop(150).has_value()) << "the credit shrank below what is in flight";
}

TEST(PriorityCreditQueueTest, AnEntryLargerThanTheCreditGoesAlone) {
  PriorityCreditQueue queue;
  queue.Push({0, 0, 1000, 0});
  queue.Push({0, 1, 1000, 1});
  EXPECT_EQ(queue.Pop(10)->task, 0U);
  EXPECT_FALSE(queue.Pop(10).has_value());
  queue.Returned(1000);
  EXPECT_EQ(queue.Pop(10)->task, 1U);
  EXPECT_FALSE(queue.IsBlocked(10)) << "nothing waits";
}

TEST(PriorityCreditQueueTest, ASmallEntryDoesNotOvertakeALargeUrgentOne) {
  PriorityCreditQueue queue;
  queue.Push({9, 0, 50, 0});
  queue.Push({8, 1, 100, 1});
  queue.Push({0, 2, 1, 2});
  EXPECT_EQ(queue.Pop(100)->task, 0U);
  EXPECT_FALSE(queue.Pop(100).has_value());
  queue.Returned(50);
  EXPECT_EQ(queue.Pop(100)->task, 1U);
}

TEST(PriorityCreditQueueTest, AWantedEntryPassesTheCredit) {
  PriorityCreditQueue queue;
  queue.Push({9, 0, 100, 0});
  queue.Push({8, 1, 100, 1});
  const Ticket wanted = queue.Push({1, 2, 100, 2});
  EXPECT_EQ(queue.Pop(100)->task, 0U);
  EXPECT_FALSE(queue.Pop(100).has_value());
  EXPECT_TRUE(queue.MarkWanted(wanted));
  EXPECT_TRUE(queue.MarkWanted(wanted)) << "twice is once";
  EXPECT_FALSE(queue.IsBlocked(100));
  EXPECT_EQ(queue.Pop(100)->task, 2U);
  EXPECT_EQ(queue.bytes_in_flight(), 200U);
  EXPECT_FALSE(queue.MarkWanted(wanted)) << "it has left";
  EXPECT_FALSE(queue.Pop(100).has_value());
}

TEST(PriorityCreditQueueTest, AWantedEntryKeepsItsPlaceInTheOrder) {
  PriorityCreditQueue queue;
  queue.Push({9, 0, 100, 0});
  EXPECT_TRUE(queue.MarkWanted(queue.Push({1, 1, 100, 1})));
  EXPECT_TRUE(queue.MarkWanted(queue.Push({5, 2, 100, 2})));
  EXPECT_EQ(queue.Pop(1000)->task, 0U);
  EXPECT_EQ(queue.Pop(1000)->task, 2U);
  EXPECT_EQ(queue.Pop(1000)->task, 1U);
}

// Two workers submit two tensors in opposite order, with a credit of one piece. A piece is answered
// only when both workers have pushed it. Without MarkWanted neither worker would ever send its
// second piece.
TEST(PriorityCreditQueueTest, OppositeOrdersWithACreditOfOnePieceFinish) {
  PriorityCreditQueue queues[2];
  std::map<uint64_t, Ticket> tickets[2];
  for (uint64_t worker = 0; worker < 2; ++worker) {
    for (uint64_t piece = 0; piece < 8; ++piece) {
      const uint64_t order = worker == 0 ? piece : 7 - piece;
      tickets[worker][piece] = queues[worker].Push({0, order, 100, piece});
    }
  }
  int contributions[8] = {};
  int answered = 0;
  for (int tick = 0; tick < 100 && answered < 8; ++tick) {
    for (int worker = 0; worker < 2; ++worker) {
      while (const std::optional<Entry> entry = queues[worker].Pop(100)) {
        if (++contributions[entry->task] == 2) {
          ++answered;
          for (PriorityCreditQueue& queue : queues) queue.Returned(100);
        } else {
          queues[1 - worker].MarkWanted(tickets[1 - worker][entry->task]);
        }
      }
    }
  }
  EXPECT_EQ(answered, 8);
  EXPECT_TRUE(queues[0].empty() && queues[1].empty());
}

TEST(PriorityCreditQueueTest, OutdatedTicketsAreHarmless) {
  PriorityCreditQueue queue;
  const Ticket first = queue.Push({0, 0, 1, 0});
  EXPECT_TRUE(queue.Remove(first));
  EXPECT_FALSE(queue.Remove(first));
  const Ticket second = queue.Push({0, 1, 1, 1});  // takes the first one's place
  EXPECT_NE(first, second);
  EXPECT_FALSE(queue.MarkWanted(first));
  EXPECT_FALSE(queue.MarkWanted(PriorityCreditQueue::kNoTicket));
  EXPECT_FALSE(queue.MarkWanted(UINT64_MAX));
  EXPECT_EQ(queue.size(), 1U);
  EXPECT_EQ(queue.bytes_in_flight(), 0U) << "a removed entry was never in flight";
}

// Searches a list from end to end for every question.
struct NaiveQueue {
  struct Item {
    Entry entry;
    Ticket ticket;
    bool wanted;
  };
  std::optional<Entry> Pop(uint64_t credit) {
    std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
      return std::make_pair(-a.entry.urgency, a.entry.order) <
             std::make_pair(-b.entry.urgency, b.entry.order);
    });
    bool ordinary_seen = false;
    for (auto item = items.begin(); item != items.end(); ++item) {
      const bool fits = in_flight == 0 || in_flight + item->entry.bytes <= credit;
      if (item->wanted || (!ordinary_seen && fits)) {
        const Entry entry = item->entry;
        in_flight += entry.bytes;
        items.erase(item);
        return entry;
      }
      ordinary_seen = true;
    }
    return std::nullopt;
  }
  std::vector<Item> items;
  uint64_t in_flight = 0;
};

RC_GTEST_PROP(PriorityCreditQueueTest, EqualsANaiveQueueUnderRandomOperations, ()) {
  PriorityCreditQueue queue;
  NaiveQueue naive;
  std::vector<Ticket> tickets = {PriorityCreditQueue::kNoTicket};
  std::vector<uint32_t> flying;
  const auto operations = *rc::gen::container<std::vector<std::pair<int, uint32_t>>>(
      400, rc::gen::pair(rc::gen::inRange(0, 10), rc::gen::inRange(0U, 1000U)));
  uint64_t order = 0;
  for (const auto& [kind, number] : operations) {
    const Ticket ticket = tickets[number % tickets.size()];
    const auto item = std::find_if(naive.items.begin(), naive.items.end(),
                                   [&](const auto& other) { return other.ticket == ticket; });
    const bool queued = item != naive.items.end();
    if (kind < 4) {
      const Entry entry{number % 7 - int64_t{3}, order++ * 7919 % 1009, number, order};
      tickets.push_back(queue.Push(entry));
      naive.items.push_back({entry, tickets.back(), false});
    } else if (kind < 7) {
      const uint64_t credit = number * 3;
      const std::optional<Entry> popped = queue.Pop(credit);
      RC_ASSERT(popped == naive.Pop(credit));
      RC_ASSERT(popped || queue.empty() || queue.IsBlocked(credit));
      if (popped) flying.push_back(popped->bytes);
    } else if (kind == 7 && !flying.empty()) {
      queue.Returned(flying.back());
      naive.in_flight -= flying.back();
      flying.pop_back();
    } else if (kind == 8) {
      RC_ASSERT(queue.MarkWanted(ticket) == queued);
      if (queued) item->wanted = true;
    } else if (kind == 9) {
      RC_ASSERT(queue.Remove(ticket) == queued);
      if (queued) naive.items.erase(item);
    }
    RC_ASSERT(queue.size() == naive.items.size());
    RC_ASSERT(queue.bytes_in_flight() == naive.in_flight);
  }
}

RC_GTEST_PROP(PriorityCreditQueueTest, AnyEntryCanLeaveOrBeMarkedWithoutHarmToTheOrder, ()) {
  PriorityCreditQueue queue;
  std::vector<std::pair<Ticket, uint64_t>> queued;
  const auto orders = *rc::gen::unique<std::vector<uint64_t>>(500, rc::gen::arbitrary<uint64_t>());
  for (uint64_t order : orders) queued.emplace_back(queue.Push({0, order, 1, 0}), order);
  const auto picks = *rc::gen::container<std::vector<uint32_t>>(200, rc::gen::inRange(0U, 1000U));
  for (uint32_t pick : picks) {
    const auto chosen = queued.begin() + pick % static_cast<uint32_t>(queued.size());
    if (pick % 3 == 0) {
      RC_ASSERT(queue.MarkWanted(chosen->first));
    } else {
      RC_ASSERT(queue.Remove(chosen->first));
      queued.erase(chosen);
    }
  }
  std::sort(queued.begin(), queued.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  for (const auto& expected : queued) {
    const std::optional<Entry> entry = queue.Pop(kUnlimited);
    RC_ASSERT(entry.has_value());
    RC_ASSERT(entry->order == expected.second);
  }
  RC_ASSERT(queue.empty());
}

TEST(PriorityCreditQueueTest, SteadyStateAllocatesNothing) {
  PriorityCreditQueue queue;
  std::vector<Ticket> tickets(1000);
  const auto turn = [&] {
    for (uint64_t i = 0; i < tickets.size(); ++i) {
      tickets[i] = queue.Push({static_cast<int64_t>(i * 37 % 101), i, 10, i});
    }
    for (uint64_t i = 0; i < tickets.size(); i += 3) queue.MarkWanted(tickets[i]);
    for (uint64_t i = 0; i < tickets.size(); i += 7) queue.Remove(tickets[i]);
    while (queue.Pop(kUnlimited)) queue.Returned(10);
  };
  turn();
  const uint64_t before = AllocationCount();
  EXPECT_GT(before, 0U) << "the counter does not count";
  for (int i = 0; i < 10; ++i) turn();
  EXPECT_EQ(AllocationCount(), before);
}

// With a scan per mark this would take 4 * 10^10 steps, and the test's time limit would end it.
TEST(PriorityCreditQueueTest, TwoHundredThousandEntriesAllWanted) {
  constexpr uint64_t kCount = 200'000;
  PriorityCreditQueue queue;
  std::vector<Ticket> tickets;
  for (uint64_t i = 0; i < kCount; ++i) {
    tickets.push_back(queue.Push({0, i * 7919 % kCount, 100, i}));
  }
  for (Ticket ticket : tickets) ASSERT_TRUE(queue.MarkWanted(ticket));
  uint64_t next = 0;
  while (const std::optional<Entry> entry = queue.Pop(0)) ASSERT_EQ(entry->order, next++);
  EXPECT_EQ(next, kCount);
}

}  // namespace
}  // namespace byteps::plan
