#include "src/transport/rdma/upgrade.h"

namespace byteps::transport {
namespace {

Upgrade::Steps Closing(StatusCode code, const std::string& text) {
  Upgrade::Steps steps;
  steps.closes = Status(code, text);
  return steps;
}

}  // namespace

// The other end sends what no correct peer sends now.
Upgrade::Steps Upgrade::Out(const std::string& what) {
  return Closing(StatusCode::kProtocol, "it sent " + what + " of RDMA that does not fit here");
}

Upgrade::Steps Upgrade::Begin() {
  state_ = State::kOffered;
  offers_ = true;
  Steps steps;
  steps.make = steps.offer = true;
  return steps;
}

// The end that offers is the one that sends the first probe: the other one is connected by then.
Upgrade::Steps Upgrade::OnOffer() {
  if (state_ != State::kPlain) return Out("an offer");
  state_ = State::kProving;
  Steps steps;
  steps.make = steps.accept = true;
  return steps;
}

// The acceptance of an offer that this end has taken back meanwhile means nothing.
Upgrade::Steps Upgrade::OnAccept() {
  if (state_ == State::kDeclined && offers_ && !told_) return {};
  if (state_ != State::kOffered) return Out("an acceptance");
  state_ = State::kProving;
  Steps steps;
  steps.connect = steps.probe = true;
  return steps;
}

Upgrade::Steps Upgrade::OnDecline(const Decline& decline) {
  if (state_ == State::kPlain || told_) return Out("a refusal");
  told_ = true;
  if (out_switched_) {
    return Closing(StatusCode::kUnavailable,
                   "RDMA with it failed while the connection changed to it: " + decline.text);
  }
  if (state_ == State::kDeclined) return {};
  state_ = State::kDeclined;
  why_ = decline;
  Steps steps;
  steps.give_up = true;
  return steps;
}

// An end sends the switch when it has the proof, so both directions work. The proof of this end may
// still wait in the completion queue.
Upgrade::Steps Upgrade::OnSwitch() {
  if (in_switched_ || told_) return Out("a switch");
  if (state_ == State::kDeclined) {
    return Closing(StatusCode::kUnavailable,
                   "RDMA with it failed while the connection changed to it: " + why_.text);
  }
  if (state_ != State::kProving && state_ != State::kProven) return Out("a switch");
  in_switched_ = true;
  Steps steps;
  steps.read_rdma = true;
  return steps;
}

Upgrade::Steps Upgrade::OnPeerProbe() {
  Steps steps;
  if (state_ != State::kProving || peer_came_) return steps;
  peer_came_ = true;
  steps.probe = !offers_;
  CheckProof();
  return steps;
}

Upgrade::Steps Upgrade::OnProbeConfirmed() {
  confirmed_ = true;
  CheckProof();
  return {};
}

void Upgrade::CheckProof() {
  if (state_ == State::kProving && confirmed_ && peer_came_) state_ = State::kProven;
}

Upgrade::Steps Upgrade::Fail(const Decline& reason) {
  if (state_ == State::kDeclined || state_ == State::kPlain) return {};
  if (out_switched_ || in_switched_) {
    return Closing(StatusCode::kUnavailable, "RDMA with it failed: " + reason.text);
  }
  state_ = State::kDeclined;
  why_ = reason;
  Steps steps;
  steps.decline = steps.give_up = true;
  return steps;
}

}  // namespace byteps::transport
