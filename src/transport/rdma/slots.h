// Slots: how many messages one end of a queue pair may still send, and when it must tell the other
// end what it has given back. So no message ever finds its receiver without a place.
//
// The receiver has n slots. The sender has sent at most n messages more than it knows to be given
// back. It keeps the last two slots for messages without bytes of the stream, because the receiver
// of a full stream must still be able to say what it gave back. An end that has given back half of
// its slots says so, in an empty message if it has nothing else to send. Two ends that are silent
// otherwise come to rest: each says at most one empty message for two.
//
// Pure. All numbers of messages count from 0 and wrap at 2^32.
#pragma once

#include <cstdint>

namespace byteps::transport {

inline constexpr uint32_t kSlotsMin = 4;
inline constexpr uint32_t kSlotsMax = 1024;
inline constexpr uint32_t kSlotsKept = 2;

// Counts the messages to the other end. `slots`: the other end's. `begin`: the first number.
class SendSlots {
 public:
  explicit SendSlots(uint32_t slots, uint32_t begin = 0)
      : slots_(slots), sent_(begin), returned_(begin) {}

  // Return whether a message may leave, with or without bytes of the stream.
  bool MaySendStream() const { return in_flight() + kSlotsKept < slots_; }
  bool MaySendEmpty() const { return in_flight() < slots_; }
  // Notes that a message leaves, and returns its number. REQUIRES: it may.
  uint32_t Send() { return sent_++; }
  // Notes what the other end says that it has given back. Returns false if no correct peer says
  // that.
  [[nodiscard]] bool OnReturned(uint32_t returned) {
    if (returned - returned_ > in_flight()) return false;
    returned_ = returned;
    return true;
  }
  // Returns the messages that may lie in slots of the other end.
  uint32_t in_flight() const { return sent_ - returned_; }

 private:
  uint32_t slots_;
  uint32_t sent_;
  uint32_t returned_;
};

// Counts the messages from the other end. `slots`: the own ones. `begin`: the first number.
class ReceiveSlots {
 public:
  explicit ReceiveSlots(uint32_t slots, uint32_t begin = 0)
      : slots_(slots), received_(begin), returned_(begin), told_(begin) {}

  // Notes that a message with this number has come. Returns false if no correct peer sends it now:
  // a peer has at most as many messages under way as there are slots that it knows of.
  [[nodiscard]] bool OnMessage(uint32_t number) {
    if (number != received_ || received_ - told_ >= slots_) return false;
    ++received_;
    return true;
  }
  // Notes that the slot of a message serves again. REQUIRES: a message has come and was not given
  // back.
  void GiveBack() { ++returned_; }
  // Returns the number for the head of the next message, which tells all that was given back.
  uint32_t Tell() { return told_ = returned_; }
  // Returns whether an empty message must tell it, if there is nothing else to send.
  bool MustTell() const { return 2 * (returned_ - told_) >= slots_; }

 private:
  uint32_t slots_;
  uint32_t received_;
  uint32_t returned_;
  uint32_t told_;  // of those that were given back
};

}  // namespace byteps::transport
