#include "src/config/option_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>
#include <string>

#include "src/config/option_values.h"
#include "src/config/text.h"
#include "src/config/text_limits.h"

namespace byteps::config {
namespace {

using ::testing::IsEmpty;

bool IsOptional(const OptionRow& row) {
  return std::holds_alternative<std::optional<int64_t> Options::*>(row.field);
}

TEST(OptionRowsTest, EveryDefaultIsAllowed) {
  for (const OptionRow& row : OptionRows()) {
    const std::string value = FormatOption(row, Options{});
    if (IsOptional(row) && value.empty()) continue;
    Options options;
    const Status set = SetOption(row, value, "default", 1, options);
    EXPECT_TRUE(set.ok()) << set.ToString();
    EXPECT_EQ(FormatOption(row, options), value) << row.name;
    EXPECT_THAT(options.warnings, IsEmpty()) << row.name;
  }
}

TEST(OptionRowsTest, NamesAreSnakeCaseAndUnique) {
  std::set<std::string_view> names;
  std::set<std::string_view> variables;
  for (const OptionRow& row : OptionRows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(variables.insert(row.variable).second) << row.variable;
    EXPECT_TRUE(row.alias.empty() || variables.insert(row.alias).second) << row.alias;
    EXPECT_TRUE(std::ranges::all_of(row.name, [](char c) {
      return c == '_' || (c >= 'a' && c <= 'z');
    })) << row.name;
  }
  for (const OtherVariable& other : OtherVariables()) {
    EXPECT_TRUE(variables.insert(other.variable).second) << other.variable;
  }
}

TEST(OptionRowsTest, RowsAreComplete) {
  for (const OptionRow& row : OptionRows()) {
    EXPECT_TRUE(row.help.ends_with('.') || row.help.ends_with(')')) << row.name;
    EXPECT_EQ(row.help.find('|'), std::string_view::npos) << row.name;
    EXPECT_EQ(row.text_allowed != nullptr, !row.text_limit.empty()) << row.name;
    EXPECT_EQ(row.minimum % row.multiple, 0) << row.name;
    EXPECT_EQ(row.maximum % row.multiple, 0) << row.name;
    EXPECT_NE(row.readers, 0) << row.name;
    if (TypeOf(row) == "integer") {
      EXPECT_LT(row.minimum, row.maximum) << row.name;
    }
    if (TypeOf(row) != "text" || !row.text_limit.empty()) {
      EXPECT_NE(RangeOf(row), "") << row.name;
    }
  }
  for (const OtherVariable& other : OtherVariables()) EXPECT_NE(other.why, "") << other.variable;
}

TEST(OptionRowsTest, FindOptionFindsEachRow) {
  for (const OptionRow& row : OptionRows()) EXPECT_EQ(FindOption(row.name), &row);
  EXPECT_EQ(FindOption("nothing"), nullptr);
}

// Returns a random value that the row allows, as text.
std::string AllowedText(const OptionRow& row) {
  if (TypeOf(row) == "integer") {
    const auto steps = (row.maximum - row.minimum) / row.multiple;
    // The end of inRange is exclusive.
    const int64_t value = row.minimum + row.multiple * *rc::gen::inRange<int64_t>(0, steps + 1);
    return value == 0 && !row.zero.empty() ? std::string(row.zero) : std::to_string(value);
  }
  if (TypeOf(row) == "0/1") return *rc::gen::element<std::string>("0", "1");
  if (TypeOf(row) == "choice") {
    return std::string(*rc::gen::elementOf(SplitList(row.choices)));
  }
  if (row.name == "address_cidr") {
    return "10.0.0.0/" + std::to_string(*rc::gen::inRange(0, 33));
  }
  if (row.text_allowed == &IsLocalSizesOrEmpty || row.text_allowed == &IsLocalRanksOrEmpty) {
    return std::to_string(*rc::gen::inRange(1, 1024)) + "," +
           std::to_string(*rc::gen::inRange(1, 1024));
  }
  return *rc::gen::resize(
      40, rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::inRange('a', 'z'))));
}

TEST(OptionRowsTest, AllowedValuesSurviveARoundTrip) {
  for (const OptionRow& row : OptionRows()) {
    EXPECT_TRUE(rc::check("text -> options -> text of " + std::string(row.name), [&row] {
      const std::string text = AllowedText(row);
      Options options;
      const Status set = SetOption(row, text, "test", 1, options);
      RC_ASSERT(set.ok());
      RC_ASSERT(FormatOption(row, options) == text);
      RC_ASSERT(options.warnings.empty());
    }));
  }
}

TEST(OptionRowsTest, AnyTextGivesAnAllowedValueOrAnErrorThatNamesTheOption) {
  for (const OptionRow& row : OptionRows()) {
    EXPECT_TRUE(rc::check("hostile texts for " + std::string(row.name), [&row] {
      const auto text = *rc::gen::arbitrary<std::string>();
      Options options;
      const Status set = SetOption(row, text, "test", 1, options);
      if (set.ok()) {
        Options again;
        RC_ASSERT(SetOption(row, FormatOption(row, options), "test", 1, again).ok());
        RC_ASSERT(FormatOption(row, again) == FormatOption(row, options));
      } else {
        RC_ASSERT(set.code() == StatusCode::kInvalidArgument);
        RC_ASSERT(set.message().find(row.name) != std::string::npos);
        RC_ASSERT(FormatOption(row, options) == FormatOption(row, Options{}));
      }
    }));
  }
}

TEST(OptionRowsTest, NumbersOutsideTheRangeAreRefusedOrClamped) {
  for (const OptionRow& row : OptionRows()) {
    if (TypeOf(row) != "integer") continue;
    EXPECT_TRUE(rc::check("out of the range of " + std::string(row.name), [&row] {
      const bool above = *rc::gen::arbitrary<bool>();
      const auto distance = *rc::gen::inRange<int64_t>(1, 1000000);
      const int64_t value = above ? row.maximum + distance : row.minimum - distance;
      Options options;
      const Status set = SetOption(row, std::to_string(value), "test", 1, options);
      if (row.strictness == Strictness::kNearest) {
        RC_ASSERT(set.ok());
        RC_ASSERT(FormatOption(row, options) == std::to_string(above ? row.maximum : row.minimum));
        RC_ASSERT(options.warnings.size() == 1u);
      } else {
        RC_ASSERT(set.code() == StatusCode::kInvalidArgument);
        RC_ASSERT(set.message().find(std::to_string(row.maximum)) != std::string::npos);
      }
    }));
  }
}

}  // namespace
}  // namespace byteps::config
