// The smallest byteps program: every rank contributes a vector, and every rank gets the sum.
// ../README.md says how to build it.
//
// Alone, it is rank 0 of 1:          push_pull
// As a job of four on one machine:   bps run -np 4 push_pull
#include <cstdio>
#include <future>
#include <vector>

#include "byteps/byteps.hpp"

int main() try {
  byteps::Session session;

  // Rank r contributes r+1 everywhere, so the sum is 1 + 2 + ... + size.
  std::vector<float> gradient(1 << 20, static_cast<float>(session.Rank() + 1));
  session.PushPull("gradient", gradient, BYTEPS_SUM);
  const int size = session.Size();
  const float expected = static_cast<float>(size * (size + 1) / 2);
  for (const float value : gradient) {
    if (value != expected) {
      std::fprintf(stderr, "the sum is %f instead of %f\n", value, expected);
      return 1;
    }
  }

  // Many jobs need two small operations: Broadcast gives all ranks the same start values, and
  // Allgather tells which ranks there are.
  std::vector<double> weights = {0.5 * session.Rank(), 1.0};
  session.Broadcast("weights", weights, /*root_rank=*/0);
  const std::vector<int32_t> ranks =
      session.Allgather("ranks", std::vector<int32_t>{session.Rank()});

  // Instead of waiting, the program can give a callback. The library calls it once, on a thread of
  // its own, and tells it how the operation ended.
  std::vector<float> loss = {0.25f};
  std::promise<byteps_code> told;
  const byteps::Handle averaging =
      session.StartPushPull("loss", loss, BYTEPS_AVERAGE, /*priority=*/0,
                            [&told](byteps_code code) { told.set_value(code); });
  if (told.get_future().get() != BYTEPS_OK || loss[0] != 0.25f) {
    std::fprintf(stderr, "the mean loss is %f\n", loss[0]);
    return 1;
  }

  std::printf("rank %d of %d: sum %.0f, first weight %.1f, %zu ranks\n", session.Rank(), size,
              gradient[0], weights[0], ranks.size());
  return 0;
} catch (const byteps::Error& error) {
  std::fprintf(stderr, "push_pull: %s\n", error.what());
  return 1;
}
