// The processes that the job has refused since it began to gather, each with the reason. The texts
// about missing members tell them. Bounded, whatever strangers do.
#pragma once

#include <array>
#include <set>
#include <string>
#include <vector>

namespace byteps::protocol {

struct Refusal {
  std::string who;   // for people: "worker 1 (process 42 on node)", "10.0.0.3:4711 (server)"
  std::string kind;  // the same for each attempt of a process: without process number and port
  std::string why;
  bool proven = false;  // the process knows the job's secret
};

class Refusals {
 public:
  // Keeps the refusal as the latest one. Returns whether to report it: once for each kind and
  // reason, and only for so many of them.
  bool Note(const Refusal& refusal);

  // Returns "; refused 10.0.0.3:4711 (server): it ..." for each of the latest refusals, the latest
  // last, or nothing.
  std::string Describe() const;

  void Forget();

 private:
  std::vector<Refusal> latest_;
  std::array<std::set<std::string>, 2> told_;  // of strangers, and of proven processes
};

// Returns for example "refused 10.0.0.3:4711 (server): it ...".
std::string Describe(const Refusal& refusal);

}  // namespace byteps::protocol
