#include "src/base/log_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "src/base/log.h"

namespace byteps {
namespace {

// Gives both streams one pipe of the smallest size.
class LogWriterTest : public testing::Test {
 protected:
  LogWriterTest() {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    EXPECT_GT(fcntl(ends_[1], F_SETPIPE_SZ, 4096), 0);
  }
  ~LogWriterTest() override {
    close(ends_[0]);
    close(ends_[1]);
  }

  int out() const { return ends_[1]; }

  // Blocks for the rest of the line.
  std::string ReadLine() {
    std::string line;
    for (char one = 0; one != '\n' && read(ends_[0], &one, 1) == 1;) line += one;
    return line;
  }
  std::string ReadWhatIsThere() {
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    std::string text(1 << 20, '\0');
    ssize_t count = read(ends_[0], text.data(), text.size());
    text.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return text;
  }

 private:
  int ends_[2] = {-1, -1};
};

std::string LineOf(int number) { return std::to_string(number) + std::string(1000, '.') + "\n"; }

TEST_F(LogWriterTest, LinesComeInTheirOrder) {
  LogWriter writer(out(), out());
  writer.Write(LogWriter::Stream::kOut, "a\n");
  writer.Write(LogWriter::Stream::kErr, "b\n");
  EXPECT_TRUE(writer.Flush(seconds(60)));
  EXPECT_EQ(ReadWhatIsThere(), "a\nb\n");
}

// Every Write returns although nobody reads. The lines that arrive and the count of missing ones
// together are all lines.
TEST_F(LogWriterTest, WhenNobodyReadsNobodyWaitsAndLinesAreCounted) {
  constexpr int kLines = 3000;  // three times as many as may wait
  LogWriter writer(out(), out());
  for (int i = 0; i < kLines; ++i) writer.Write(LogWriter::Stream::kErr, LineOf(i));
  EXPECT_FALSE(writer.Flush(milliseconds(1)));
  int read = 0;
  int missing = 0;
  while (read + missing < kLines) {
    std::string line = ReadLine();
    ASSERT_FALSE(line.empty());
    if (line[0] != '[') {
      EXPECT_EQ(line, LineOf(read + missing)) << "lines are dropped where it is said";
      ++read;
      continue;
    }
    EXPECT_NE(line.find(" lines are missing here: nobody read the output]"), std::string::npos);
    missing += std::atoi(line.c_str() + 1);
  }
  EXPECT_GE(read, static_cast<int>(LogWriter::kQueuedBytesMax / LineOf(kLines).size()) - 1);
  EXPECT_GT(missing, 0);
  writer.Write(LogWriter::Stream::kErr, "afterwards\n");
  EXPECT_EQ(ReadLine(), "afterwards\n");
}

TEST_F(LogWriterTest, TheEndWaitsForWhatIsQueuedButNotForEver) {
  {
    LogWriter writer(out(), out());
    writer.Write(LogWriter::Stream::kErr, "the last words\n");
  }
  EXPECT_EQ(ReadLine(), "the last words\n");
  {
    LogWriter writer(out(), out());
    for (int i = 0; i < 100; ++i) writer.Write(LogWriter::Stream::kErr, LineOf(i));
  }
  EXPECT_EQ(ReadLine(), LineOf(0)) << "it returned although nobody had read";
}

TEST_F(LogWriterTest, AReaderThatIsGoneEndsNothing) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[0]);
  LogWriter writer(ends[1], ends[1]);
  writer.Write(LogWriter::Stream::kErr, "nobody hears this\n");
  EXPECT_TRUE(writer.Flush(seconds(60)));
  close(ends[1]);
}

TEST(LogTest, WarningsGoToTheErrorStream) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  {
    Log log("server 0", "info", true);
    log.Info("{} is {}", "one", 1);
    log.Warning("two");
    log.Rename("server 1");
    log.Error("three");
    log.Debug("nothing");
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "[I server 0] one is 1\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[W server 0] two\n[E server 1] three\n");
}

}  // namespace
}  // namespace byteps
