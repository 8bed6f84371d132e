// One process' own hold on the transport that all processes of a test share, and ways to harm it:
// to stop its loops where they are, as a kill does; to freeze them; to cut its connections.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "src/base/thread_annotations.h"
#include "src/base/time.h"
#include "src/transport/transport.h"

namespace byteps::cluster {

// The limit for every wait.
inline constexpr Duration kPatience = seconds(60);

// A gate to wait at, closed at first and then open for ever. Thread-safe.
class Gate {
 public:
  void Open();
  // Blocks until the gate is open; returns false if it does not open within kPatience.
  bool Wait();
  // Blocks until a thread waits here; returns false if none comes within kPatience.
  bool AwaitThread();

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  bool reached_ BYTEPS_GUARDED_BY(mutex_) = false;
  bool open_ BYTEPS_GUARDED_BY(mutex_) = false;
};

class CuttableLoop;

// The loops that exist.
struct Loops {
  std::vector<transport::Loop*> all;
  std::vector<CuttableLoop*> cuttable;
};

class SharedTransport final : public transport::Transport {
 public:
  // `cuttable`: its loops may end, and Cut and Block work; but connections cannot move to them.
  explicit SharedTransport(std::shared_ptr<transport::Transport> shared, bool cuttable = false)
      : shared_(std::move(shared)), cuttable_(cuttable) {}
  std::unique_ptr<transport::Loop> MakeLoop() override;

  // Each of these methods harms the loops that exist. REQUIRES: none of the loops ends meanwhile.
  // The methods tell nobody.
  void StopLoops();
  void Freeze(const std::shared_ptr<Gate>& gate);
  // Posts to one of its loops, which are numbered in the order in which they were made.
  void PostTo(size_t loop, std::function<void()> work);
  void StopLoop(size_t loop) { loops_->all.at(loop)->Stop(); }
  // Breaks the connections to `address` that were made from here, with their data in flight.
  void Cut(const std::string& address);
  // Does the same, and makes new connections to `address` fail.
  void Block(const std::string& address);

 private:
  const std::shared_ptr<transport::Transport> shared_;
  const bool cuttable_;
  const std::shared_ptr<Loops> loops_ = std::make_shared<Loops>();
};

}  // namespace byteps::cluster
