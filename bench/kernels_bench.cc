// Measures the kernels beside memcpy of the same bytes in the same minute.
//
// Each round times memcpy and every kernel once, one after the other. A ratio is the median of the
// rounds' ratios, so that a slow moment of the machine hits both sides. Each kernel runs once
// uncounted before, so that it finds its own buffers in the caches and not those of another kernel.
// GB/s counts the bytes of the summands: for `d += s` the bytes of s, for n inputs in one pass the
// bytes of all n.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "src/base/types.h"
#include "src/kernels/kernels.h"

namespace byteps {
namespace {

constexpr size_t kKilobyte = 1024;
constexpr size_t kMegabyte = 1024 * kKilobyte;
constexpr size_t kLine = 64;
constexpr size_t kWays = 4;
// The numbers of inputs whose trees differ in what they cost, and the most of them. Only buffers
// that stay in a cache are so many.
constexpr size_t kManyWays[] = {3, 6, 8, 12, 16, 32, 64};
constexpr size_t kWaysMax = 64;

struct Buffers {
  size_t bytes;
  std::vector<std::vector<std::byte>> storage;
  std::vector<std::byte*> at;
};

// One row of the table: a kernel at a size, beside a reference that counts `reference_bytes`.
struct Case {
  std::string kernel;
  std::string reference;  // "memcpy", or another reference
  size_t counted_bytes;   // summand bytes of one run
  std::function<void()> run;
  double target;  // 0: none
};

struct Row {
  std::string kernel;
  std::string reference;
  size_t bytes;
  double gigabytes_per_second;
  double ratio;
  double target;
};

Buffers MakeBuffers(size_t bytes, size_t ways) {
  Buffers buffers{bytes, {}, {}};
  for (size_t way = 0; way < ways; ++way) {
    // Begins on a cache line, like buffers of a pool, but not all at the same place in a page.
    const size_t skip = way % 13 * 5 * kLine;
    buffers.storage.emplace_back(bytes + skip + kLine);
    std::byte* data = buffers.storage.back().data();
    data += kLine - reinterpret_cast<uintptr_t>(data) % kLine;
    buffers.at.push_back(data + skip);
  }
  return buffers;
}

double Seconds(const std::function<void()>& run, size_t repeats) {
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < repeats; ++i) run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
         static_cast<double>(repeats);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::function<void()> SumOf(const Buffers& buffers, DataType type, size_t ways,
                            Combine how = Combine::kSum) {
  std::vector<const std::byte*> inputs(buffers.at.begin(), buffers.at.begin() + ways);
  std::vector<uint32_t> places(ways);
  std::iota(places.begin(), places.end(), 0U);
  return [how, type, inputs, places, out = buffers.at[0], count = buffers.bytes / SizeOf(type)] {
    kernels::Combine(how, type, out, inputs, kernels::SumTree(places), count);
  };
}

// Returns the same sum as n ways in one pass, but as one `d += s` after the other.
std::function<void()> RepeatedSumOf(const Buffers& buffers, DataType type, size_t ways) {
  return [type, ways, &buffers, count = buffers.bytes / SizeOf(type)] {
    for (size_t way = 1; way < ways; ++way) {
      const std::byte* inputs[] = {buffers.at[0], buffers.at[way]};
      const uint32_t places[] = {0, 1};
      kernels::Combine(Combine::kSum, type, buffers.at[0], inputs, kernels::SumTree(places), count);
    }
  };
}

std::vector<Case> CasesOf(const Buffers& buffers, bool in_cache) {
  const size_t bytes = buffers.bytes;
  const double half_target = in_cache ? 0.45 : 1.0;
  const auto copy = [&buffers] { std::memcpy(buffers.at[0], buffers.at[1], buffers.bytes); };
  std::vector<Case> cases = {
      {"memcpy", "memcpy", bytes, copy, 0},
      {"repeated d+=s float32, 4 inputs", "memcpy", kWays * bytes,
       RepeatedSumOf(buffers, DataType::kFloat32, kWays), 0},
      {"sum float32", "memcpy", bytes, SumOf(buffers, DataType::kFloat32, 2),
       in_cache ? 0.95 : 1.1},
      {"sum float16", "memcpy", bytes, SumOf(buffers, DataType::kFloat16, 2), half_target},
      {"sum bfloat16", "memcpy", bytes, SumOf(buffers, DataType::kBfloat16, 2), half_target},
      {"sum float32, 4 inputs in one pass", "repeated", kWays * bytes,
       SumOf(buffers, DataType::kFloat32, kWays), in_cache ? 0 : 1.5},
  };
  for (DataType type : {DataType::kFloat64, DataType::kInt8, DataType::kInt32, DataType::kInt64}) {
    cases.push_back(
        {std::string("sum ") + NameOf(type), "memcpy", bytes, SumOf(buffers, type, 2), 0});
  }
  for (DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
    for (size_t ways : kManyWays) {
      if (ways > buffers.at.size()) continue;
      cases.push_back({std::string("sum ") + NameOf(type) + ", " + std::to_string(ways) + " inputs",
                       "memcpy", ways * bytes, SumOf(buffers, type, ways), 0});
    }
  }
  cases.push_back(
      {"max float32", "memcpy", bytes, SumOf(buffers, DataType::kFloat32, 2, Combine::kMax), 0});
  cases.push_back({"product float32", "memcpy", bytes,
                   SumOf(buffers, DataType::kFloat32, 2, Combine::kProduct), 0});
  return cases;
}

std::vector<Row> Measure(size_t bytes, int rounds) {
  const bool in_cache = bytes <= kMegabyte;
  const Buffers buffers = MakeBuffers(bytes, in_cache ? kWaysMax : kWays);
  const std::vector<Case> cases = CasesOf(buffers, in_cache);
  const size_t repeats = std::max<size_t>(1, 16 * kMegabyte / bytes);
  std::vector<std::vector<double>> seconds(cases.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < cases.size(); ++i) {
      Seconds(cases[i].run, in_cache ? 4 : 1);
      seconds[i].push_back(Seconds(cases[i].run, repeats));
    }
  }
  std::vector<Row> rows;
  for (size_t i = 0; i < cases.size(); ++i) {
    const size_t reference = cases[i].reference == "repeated" ? 1 : 0;
    const double scale = static_cast<double>(cases[i].counted_bytes) /
                         static_cast<double>(cases[reference].counted_bytes);
    std::vector<double> ratios;
    for (int round = 0; round < rounds; ++round) {
      ratios.push_back(scale * seconds[reference][round] / seconds[i][round]);
    }
    rows.push_back({cases[i].kernel, cases[i].reference, bytes,
                    static_cast<double>(cases[i].counted_bytes) / Median(seconds[i]) / 1e9,
                    Median(ratios), cases[i].target});
  }
  return rows;
}

const char* VerdictOf(const Row& row) {
  if (row.target == 0) return "";
  return row.ratio >= row.target ? "reached" : "MISSED";
}

void PrintTable(const std::vector<Row>& rows) {
  std::printf("%-34s %9s %8s %9s %-9s %7s %s\n", "kernel", "size", "GB/s", "ratio", "beside",
              "target", "verdict");
  for (const Row& row : rows) {
    char target[16] = "";
    if (row.target != 0) std::snprintf(target, sizeof target, "%.2f", row.target);
    std::printf("%-34s %6zu KB %8.1f %8.2fx %-9s %7s %s\n", row.kernel.c_str(),
                row.bytes / kKilobyte, row.gigabytes_per_second, row.ratio, row.reference.c_str(),
                target, VerdictOf(row));
  }
}

bool WriteJson(const std::string& path, const std::vector<Row>& rows) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "w"), std::fclose);
  if (!file) {
    std::fprintf(stderr, "cannot write %s: %s\n", path.c_str(), std::strerror(errno));
    return false;
  }
  std::fprintf(file.get(), "{\"simd\": \"%s\", \"rows\": [", kernels::TargetName());
  const char* separator = "\n";
  for (const Row& row : rows) {
    std::fprintf(file.get(),
                 "%s  {\"kernel\": \"%s\", \"bytes\": %zu, \"gigabytes_per_second\": %.3f, "
                 "\"ratio\": %.4f, \"beside\": \"%s\", \"target\": %.2f, \"verdict\": \"%s\"}",
                 separator, row.kernel.c_str(), row.bytes, row.gigabytes_per_second, row.ratio,
                 row.reference.c_str(), row.target, VerdictOf(row));
    separator = ",\n";
  }
  std::fprintf(file.get(), "\n]}\n");
  return true;
}

int Main(int argc, char** argv) {
  std::string json_path;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--json" && i + 1 < argc) {
      json_path = argv[++i];
    } else {
      std::fprintf(stderr, "usage: %s [--json FILE]\n", argv[0]);
      return 2;
    }
  }
  std::printf("SIMD: %s; one core\n", kernels::TargetName());
  std::vector<Row> rows;
  for (size_t bytes : {64 * kKilobyte, 256 * kKilobyte, 64 * kMegabyte}) {
    for (Row& row : Measure(bytes, 31)) rows.push_back(std::move(row));
  }
  PrintTable(rows);
  return json_path.empty() || WriteJson(json_path, rows) ? 0 : 1;
}

}  // namespace
}  // namespace byteps

int main(int argc, char** argv) { return byteps::Main(argc, argv); }
