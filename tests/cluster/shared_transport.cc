#include "tests/cluster/shared_transport.h"

#include <utility>

namespace byteps::cluster {

using transport::Connection;

// Forwards everything to a loop, and knows the connections that were made on it.
class CuttableLoop final : public transport::Loop {
 public:
  CuttableLoop(std::unique_ptr<transport::Loop> real, std::shared_ptr<Loops> loops)
      : real_(std::move(real)), loops_(std::move(loops)) {
    loops_->all.push_back(this);
    loops_->cuttable.push_back(this);
  }
  ~CuttableLoop() override {
    std::erase(loops_->all, this);
    std::erase(loops_->cuttable, this);
  }

  void Run() override { real_->Run(); }
  void Stop() override { real_->Stop(); }
  void Post(std::function<void()> work) override { real_->Post(std::move(work)); }
  bool InLoop() const override { return real_->InLoop(); }
  Time Now() const override { return real_->Now(); }
  Time EventTime() const override { return real_->EventTime(); }
  void AfterEvent(std::function<void()> work) override { real_->AfterEvent(std::move(work)); }
  BufferPool& Buffers() override { return real_->Buffers(); }
  std::unique_ptr<Timer> Every(Duration period, std::function<void()> tick) override {
    return real_->Every(period, std::move(tick));
  }
  std::unique_ptr<Timer> After(Duration delay, std::function<void()> work) override {
    return real_->After(delay, std::move(work));
  }
  Result<std::unique_ptr<transport::Listener>> Listen(
      const std::string& address,
      std::function<void(std::unique_ptr<Connection>)> accept) override {
    return real_->Listen(address, std::move(accept));
  }
  void Connect(const std::string& address, Duration timeout,
               std::function<void(Result<std::unique_ptr<Connection>>)> done) override;

  void Cut(const std::string& address, bool for_ever);

 private:
  class Cuttable;

  const std::unique_ptr<transport::Loop> real_;
  const std::shared_ptr<Loops> loops_;
  std::set<Cuttable*> connections_;
  std::set<std::string> blocked_;
};

class CuttableLoop::Cuttable final : public Connection {
 public:
  Cuttable(CuttableLoop& loop, std::string address, std::unique_ptr<Connection> real)
      : loop_(loop), address_(std::move(address)), real_(std::move(real)) {
    loop_.connections_.insert(this);
  }
  ~Cuttable() override { loop_.connections_.erase(this); }

  void Start(transport::FrameReceiver* receiver) override { real_->Start(receiver); }
  void SetLimits(const transport::Limits& limits) override { real_->SetLimits(limits); }
  void Send(transport::OutFrame frame) override { real_->Send(std::move(frame)); }
  void Detach(ConstByteSpan memory, BufferPool& pool) override { real_->Detach(memory, pool); }
  void Close() override { real_->Close(); }
  void CloseAfterFlush(Duration patience) override { real_->CloseAfterFlush(patience); }
  size_t queued_bytes() const override { return real_->queued_bytes(); }
  std::string PeerName() const override { return real_->PeerName(); }
  std::string LocalAddress() const override { return real_->LocalAddress(); }
  ConstByteSpan ChannelBinding() const override { return real_->ChannelBinding(); }
  std::string Medium() const override { return real_->Medium(); }
  Status CheckSameUser() const override { return real_->CheckSameUser(); }
  Duration RoundTrip() const override { return real_->RoundTrip(); }
  void MoveTo(transport::Loop& target,
              std::function<void(std::unique_ptr<Connection>)> adopt) override {
    real_->MoveTo(target, std::move(adopt));
  }

  const std::string& address() const { return address_; }

 private:
  CuttableLoop& loop_;
  const std::string address_;
  const std::unique_ptr<Connection> real_;
};

void CuttableLoop::Connect(const std::string& address, Duration timeout,
                           std::function<void(Result<std::unique_ptr<Connection>>)> done) {
  if (blocked_.contains(address)) {
    return Post([done = std::move(done)] { done(Status(StatusCode::kUnavailable, "blocked")); });
  }
  real_->Connect(address, timeout,
                 [this, address, done = std::move(done)](Result<std::unique_ptr<Connection>> made) {
                   if (!made.ok()) return done(made.status());
                   std::unique_ptr<Connection> wrapped =
                       std::make_unique<Cuttable>(*this, address, std::move(made).value());
                   done(std::move(wrapped));
                 });
}

void CuttableLoop::Cut(const std::string& address, bool for_ever) {
  if (for_ever) blocked_.insert(address);
  for (Cuttable* connection : connections_) {
    if (connection->address() == address) connection->Close();
  }
}

void Gate::Open() {
  MutexLock lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

bool Gate::Wait() {
  auto deadline = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(mutex_);
  reached_ = true;
  changed_.notify_all();
  while (!open_) {
    if (!lock.WaitUntil(changed_, deadline) && !open_) return false;
  }
  return true;
}

bool Gate::AwaitThread() {
  auto deadline = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(mutex_);
  while (!reached_) {
    if (!lock.WaitUntil(changed_, deadline) && !reached_) return false;
  }
  return true;
}

std::unique_ptr<transport::Loop> SharedTransport::MakeLoop() {
  std::unique_ptr<transport::Loop> loop = shared_->MakeLoop();
  if (cuttable_) return std::make_unique<CuttableLoop>(std::move(loop), loops_);
  loops_->all.push_back(loop.get());
  return loop;
}

void SharedTransport::StopLoops() {
  for (transport::Loop* loop : loops_->all) loop->Stop();
}

void SharedTransport::Freeze(const std::shared_ptr<Gate>& gate) {
  for (transport::Loop* loop : loops_->all) {
    loop->Post([gate] { gate->Wait(); });
  }
}

void SharedTransport::PostTo(size_t loop, std::function<void()> work) {
  loops_->all.at(loop)->Post(std::move(work));
}

void SharedTransport::Cut(const std::string& address) {
  for (CuttableLoop* loop : loops_->cuttable) {
    loop->Post([loop, address] { loop->Cut(address, false); });
  }
}

void SharedTransport::Block(const std::string& address) {
  for (CuttableLoop* loop : loops_->cuttable) {
    loop->Post([loop, address] { loop->Cut(address, true); });
  }
}

}  // namespace byteps::cluster
