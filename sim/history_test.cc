// The histories that docs/membership.md draws. The seed beside each history plays it.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "sim/faults.h"
#include "sim/mistakes.h"

namespace byteps::sim {
namespace {

// The lines that the log must have, in this order. In a line `*` is any text, `#` any number, `$`
// the same piece and round in the whole history, A and B two workers, S and T any numbers. A line
// that begins with "not " must not come before the next line.
using History = std::vector<std::string_view>;

const std::map<char, History>& Histories() {
  static const std::map<char, History> kHistories = {
      {'A',
       {"shard S: from worker A: push of $,", "kill worker A", "coordinator: worker A *was lost",
        "not kill *", "worker B: commit", "worker B: operation # ends: ok, of * and more in some"}},
      {'B',
       {"worker A: answer # for $,", "not worker B: answer # for $,", "kill server S",
        "not worker B: answer # for $,", "worker A: commit",
        "shard T: from worker A: verdict of $,", "shard T: from worker B: push of $,",
        "worker B: answer # for $,"}},
      {'C',
       {"kill coordinator", "not *was lost", "worker A: operation # ends: ok", "not *was lost",
        "another coordinator", "coordinator: report", "not *was lost", "worker A: commit",
        "worker A: operation # ends: ok"}},
      {'D',
       {"an accusation of worker A", "coordinator: worker A *was lost",
        "shard S: from worker A: push of $,", "worker A: operation # ends: evicted",
        "worker B: operation # ends: ok"}},
      {'E',
       {"an accusation of server S", "worker A: commit", "not worker B: commit",
        "worker B: answer # for $,", "worker B: commit", "shard T: from worker B: verdict of $,",
        "worker A: answer # for $,"}},
      {'F',
       {"shard S: from worker A: push of $,", "cut worker A - shard S", "not *was lost",
        "shard S: from worker A: hello", "not *was lost", "shard S: from worker A: push of $,",
        "not *was lost", "shard S: from worker A: resync", "not *was lost",
        "worker A: answer # for $,"}},
      {'G',
       {"worker A: answer # for $,", "not worker B: answer # for $,", "kill server S",
        "not worker B: answer # for $,", "kill worker A",
        "not shard #: from worker A: verdict of $,", "shard T: from worker B: push of $,",
        "not shard #: from worker #: verdict of $,", "worker B: answer # for $,"}},
      {'H',
       {"coordinator: * was lost", "worker A: propose", "not * commit", "kill coordinator",
        "not * commit", "another coordinator", "coordinator: report", "worker A: commit"}},
      {'I',
       {"a partition of 1 hosts", "coordinator: worker A *was lost", "worker B: commit",
        "worker B: operation # ends: ok", "the partition heals",
        "worker A: operation # ends: evicted"}},
      {'J',
       {"worker A comes", "coordinator: sync", "worker B: commit",
        "shard S: from worker A: push of $,", "worker A: operation # ends: ok"}},
      {'K',
       {"worker A gives up", "shard S: from worker A: abort of $,",
        "worker B: answer # for $, # bytes, an error", "worker B: operation # ends: deadline"}}};
  return kHistories;
}

// The meanings of a history's letters.
using Bound = std::map<char, std::string>;

std::optional<size_t> LengthOf(char word, std::string_view text) {
  static const std::regex kPiece("^tensor \\d+ piece \\d+ round \\d+");
  static const std::regex kNumber("^\\d+");
  std::match_results<std::string_view::const_iterator> match;
  const std::regex& what = word == '$' ? kPiece : kNumber;
  if (!std::regex_search(text.begin(), text.end(), match, what)) return std::nullopt;
  return static_cast<size_t>(match.length());
}

bool MayStandFor(char word, const std::string& value, const Bound& bound) {
  if (word == '#') return true;
  auto known = bound.find(word);
  if (known != bound.end()) return known->second == value;
  char other = word == 'A' ? 'B' : word == 'B' ? 'A' : '\0';
  auto rival = bound.find(other);
  return rival == bound.end() || rival->second != value;
}

// Returns whether `text` begins as `line` says, and binds letters that were free.
bool Begins(std::string_view text, std::string_view line, Bound& bound) {
  for (; !line.empty(); line.remove_prefix(1)) {
    char word = line.front();
    if (word == '*') {
      for (size_t skip = 0; skip <= text.size(); ++skip) {
        Bound attempt = bound;
        if (!Begins(text.substr(skip), line.substr(1), attempt)) continue;
        bound = std::move(attempt);
        return true;
      }
      return false;
    }
    if (std::string_view("#$ABST").find(word) == std::string_view::npos) {
      if (!text.starts_with(word)) return false;
      text.remove_prefix(1);
      continue;
    }
    std::optional<size_t> length = LengthOf(word, text);
    if (!length.has_value()) return false;
    std::string value(text.substr(0, *length));
    if (!MayStandFor(word, value, bound)) return false;
    if (word != '#') bound[word] = value;
    text.remove_prefix(*length);
  }
  return true;
}

using Log = std::vector<std::string>;

bool Plays(const Log& log, size_t from, const History& history, size_t step, const Bound& bound) {
  std::optional<std::string_view> forbidden;
  if (step < history.size() && history[step].starts_with("not ")) {
    forbidden = history[step++].substr(4);
  }
  if (step == history.size()) return true;
  for (size_t at = from; at < log.size(); ++at) {
    Bound attempt = bound;
    if (Begins(log[at], history[step], attempt) && Plays(log, at + 1, history, step + 1, attempt)) {
      return true;
    }
    Bound ignored = bound;
    if (forbidden.has_value() && Begins(log[at], *forbidden, ignored)) return false;
  }
  return false;
}

struct Replay {
  Log log;  // without times
  std::optional<std::string> violation;
};

Replay RunSeed(uint64_t seed, const std::string& mistake) {
  Replay replay;
  FaultOptions options;
  options.seed = seed;
  options.mistakes = MistakeNamed(mistake);
  options.log = [&replay](const std::string& line) {
    replay.log.push_back(line.substr(line.find(' ') + 1));
  };
  replay.violation = RunFaults(options).violation;
  return replay;
}

bool Plays(uint64_t seed, const History& history) {
  Replay replay = RunSeed(seed, "none");
  return !replay.violation.has_value() && Plays(replay.log, 0, history, 0, {});
}

// Finds another seed that plays the history, for a change of the seeds' schedules; one with a short
// log if possible.
std::string AnotherSeed(const History& history) {
  constexpr size_t kShort = 300;
  std::optional<uint64_t> best;
  size_t lines = 0;
  for (uint64_t seed = 1; seed <= 10000 && (!best.has_value() || lines > kShort); ++seed) {
    Replay replay = RunSeed(seed, "none");
    if (best.has_value() && replay.log.size() >= lines) continue;
    if (replay.violation.has_value() || !Plays(replay.log, 0, history, 0, {})) continue;
    best = seed;
    lines = replay.log.size();
  }
  if (!best.has_value()) return "nor does another one up to 10000";
  return "seed " + std::to_string(*best) + " does, in " + std::to_string(lines) + " lines";
}

std::vector<std::smatch> FindAll(const std::string& page, const std::regex& what) {
  return {std::sregex_iterator(page.begin(), page.end(), what), std::sregex_iterator()};
}

class HistoryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ifstream file(BYTEPS_HISTORIES_PAGE);
    page_.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::string page_;
};

TEST_F(HistoryTest, EachSeedOfThePagePlaysItsHistory) {
  std::regex heading("\n([A-K])  [^\n]*seed (\\d+)");
  std::string letters;
  for (const std::smatch& match : FindAll(page_, heading)) {
    char letter = match.str(1).front();
    letters += letter;
    uint64_t seed = std::stoull(match.str(2));
    const History& history = Histories().at(letter);
    EXPECT_TRUE(Plays(seed, history)) << "history " << letter << ": seed " << seed
                                      << " does not play it; " << AnotherSeed(history);
  }
  EXPECT_EQ(letters, "ABCDEFGHIJK");
}

TEST_F(HistoryTest, EachSeedOfThePageCatchesItsMistake) {
  std::regex illegal("\nillegal [^\n]*--mistake ([a-z-]+), seed (\\d+)");
  auto found = FindAll(page_, illegal);
  EXPECT_GE(found.size(), 3U);
  for (const std::smatch& match : found) {
    std::string mistake = match.str(1);
    uint64_t seed = std::stoull(match.str(2));
    EXPECT_FALSE(RunSeed(seed, "none").violation.has_value()) << seed;
    if (RunSeed(seed, mistake).violation.has_value()) continue;
    for (seed = 1; seed < 2000 && !RunSeed(seed, mistake).violation.has_value();) ++seed;
    ADD_FAILURE() << mistake << " is not caught; try seed " << seed;
  }
}

}  // namespace
}  // namespace byteps::sim
