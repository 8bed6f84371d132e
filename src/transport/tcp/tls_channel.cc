#include "src/transport/tcp/tls_channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "src/base/crypto_start.h"
#include "src/transport/tcp/tls_record.h"

namespace byteps::transport {
namespace {

constexpr size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
// A system call carries several records, because one call for each record costs a third more CPU
// over loopback. Urgent frames cannot overtake sealed bytes, which take this much memory for each
// connection and direction. Two pieces of 32 KB fit, with their headers and the records' overhead.
constexpr size_t kRecordsBytes = size_t{80} * 1024;
constexpr size_t kSealedBytes = size_t{80} * 1024;
// A process may have a thousand connections whose peers have proved nothing, so these get little
// memory: a little more than a handshake needs.
constexpr size_t kHandshakeBytes = size_t{4} * 1024;
// The most bytes that OpenSSL holds of a record whose end has not come.
constexpr size_t kHeldBytesMax = SSL3_RT_MAX_PACKET_SIZE;

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL_SESSION, Free<SSL_SESSION_free>>;
using Method = std::unique_ptr<BIO_METHOD, Free<BIO_meth_free>>;

// Cuts the bytes of several parts into records.
class Records {
 public:
  explicit Records(std::span<const iovec> parts) : parts_(parts) { SkipThrough(); }

  bool empty() const { return parts_.empty(); }

  // Returns the next record's bytes, without a copy if they lie in one place.
  ConstByteSpan Next() {
    const iovec& first = parts_.front();
    if (first.iov_len - begin_ >= kRecordBytes || parts_.size() == 1) return Take();
    size_t bytes = 0;
    while (!parts_.empty() && bytes < kRecordBytes) {
      ConstByteSpan piece = Take(kRecordBytes - bytes);
      std::memcpy(gathered_.data() + bytes, piece.data(), piece.size());
      bytes += piece.size();
    }
    return ConstByteSpan(gathered_).first(bytes);
  }

 private:
  ConstByteSpan Take(size_t bytes_max = kRecordBytes) {
    const iovec& part = parts_.front();
    size_t bytes = std::min(part.iov_len - begin_, bytes_max);
    ConstByteSpan taken(static_cast<const std::byte*>(part.iov_base) + begin_, bytes);
    begin_ += bytes;
    SkipThrough();
    return taken;
  }

  void SkipThrough() {
    while (!parts_.empty() && begin_ == parts_.front().iov_len) {
      parts_ = parts_.subspan(1);
      begin_ = 0;
    }
  }

  std::span<const iovec> parts_;
  size_t begin_ = 0;  // of the first part
  std::array<std::byte, kRecordBytes> gathered_;
};

// The socket as OpenSSL sees it. It takes all bytes, because it keeps sealed bytes until they are
// sent. Otherwise OpenSSL would want the same bytes again, and until then the user could neither
// send a more urgent frame first nor have the memory back.
class Socket {
 public:
  // Memory is allocated here and in OnOpen, because no exception may pass through OpenSSL.
  explicit Socket(int descriptor) : descriptor_(descriptor) { unsent_.reserve(kHandshakeBytes); }

  // Makes room for data, because the peer has proved that it has the key.
  void OnOpen() { unsent_.reserve(kSealedBytes + 2 * SSL3_RT_MAX_PACKET_SIZE); }

  // Begins a pass of ByteChannel. In a pass, a short read shows that the next read would find
  // nothing.
  void BeginPass() { drained_ = false; }

  int Read(std::byte* place, size_t size, BIO* bio) {
    if (drained_) return Again(bio);
    ssize_t count = recv(descriptor_, place, size, MSG_DONTWAIT);
    if (count > 0) {
      auto received = static_cast<size_t>(count);
      Note(ConstByteSpan(place, received));
      drained_ = received < size;
      return static_cast<int>(count);
    }
    if (count == 0) {
      stop_ = ByteChannel::kEndOfStream;
      return 0;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return Again(bio);
    stop_ = errno;
    return -1;
  }

  int Write(ConstByteSpan bytes) {
    unsent_.insert(unsent_.end(), bytes.begin(), bytes.end());
    return static_cast<int>(bytes.size());
  }

  // Sends unsent bytes. Returns kThrough if none are left.
  int SendUnsent() {
    while (unsent_bytes() > 0) {
      ssize_t count = send(descriptor_, unsent_.data() + unsent_begin_, unsent_bytes(),
                           MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count >= 0) {
        unsent_begin_ += static_cast<size_t>(count);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return EAGAIN;
      } else if (errno != EINTR) {
        return stop_ = errno;
      }
    }
    unsent_.clear();
    unsent_begin_ = 0;
    return ByteChannel::kThrough;
  }

  size_t unsent_bytes() const { return unsent_.size() - unsent_begin_; }
  // Returns the error of the last system call that failed; kThrough: none.
  int stop() const { return stop_; }
  // Returns whether the first bytes of the peer are TLS.
  bool tls() const { return noted_ < begin_.size() || BeginsAsTls(begin_); }

 private:
  void Note(ConstByteSpan received) {
    for (size_t i = 0; i < received.size() && noted_ < begin_.size(); ++i) {
      begin_[noted_++] = received[i];
    }
  }

  static int Again(BIO* bio) {
    BIO_set_retry_read(bio);
    return -1;
  }

  const int descriptor_;
  int stop_ = ByteChannel::kThrough;
  bool drained_ = false;
  std::array<std::byte, kTlsBeginBytes> begin_{};  // the first bytes that came
  size_t noted_ = 0;                               // how many bytes of `begin_` came
  std::vector<std::byte> unsent_;
  size_t unsent_begin_ = 0;
};

Socket& SocketOf(BIO* bio) { return *static_cast<Socket*>(BIO_get_data(bio)); }

int ReadBio(BIO* bio, char* place, int size) {
  BIO_clear_retry_flags(bio);
  return SocketOf(bio).Read(reinterpret_cast<std::byte*>(place), static_cast<size_t>(size), bio);
}

int WriteBio(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  return SocketOf(bio).Write(std::as_bytes(std::span(bytes, static_cast<size_t>(size))));
}

long ControlBio(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

Method MakeMethod() {
  // The method has no type index of its own, because a process has at most about a hundred of
  // these.
  Method method(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "byteps"));
  bool complete = method != nullptr && BIO_meth_set_read(method.get(), ReadBio) == 1 &&
                  BIO_meth_set_write(method.get(), WriteBio) == 1 &&
                  BIO_meth_set_ctrl(method.get(), ControlBio) == 1;
  return complete ? std::move(method) : nullptr;
}

class TlsChannel final : public ByteChannel {
 public:
  TlsChannel(SSL_CTX* context, const BIO_METHOD* method, int socket, ByteChannels::Side side,
             uint64_t records_max)
      : socket_(socket), ssl_(SSL_new(context)), records_max_(records_max) {
    BIO* bio = BIO_new(method);
    if (ssl_ == nullptr || bio == nullptr) throw std::bad_alloc();
    BIO_set_data(bio, &socket_);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);
    if (side == ByteChannels::Side::kConnected) {
      SSL_set_connect_state(ssl_.get());
      SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, nullptr);  // no peer has a certificate
    } else {
      SSL_set_accept_state(ssl_.get());
    }
  }

  int Open() override {
    if (open_ || trouble_.code() != StatusCode::kOk) return open_ ? kThrough : EPROTO;
    ERR_clear_error();
    socket_.BeginPass();
    int done = SSL_do_handshake(ssl_.get());
    int stop = done == 1 ? kThrough : Stop(done);
    socket_.SendUnsent();  // the rest is in unsent_bytes
    if (stop != kThrough) return stop;
    // A peer that gets this far without the key has found a hole in TLS.
    if (SSL_session_reused(ssl_.get()) != 1 || SSL_version(ssl_.get()) != TLS1_3_VERSION ||
        !TakeBinding()) {
      trouble_ = {StatusCode::kRefused, "it did not prove that it has the key of the job"};
      return EPROTO;
    }
    socket_.OnOpen();
    // The handshake's buffers are empty, because OpenSSL has not read ahead. After this it makes
    // larger ones.
    SSL_free_buffers(ssl_.get());
    SSL_set_read_ahead(ssl_.get(), 1);
    SSL_set_default_read_buffer_len(ssl_.get(), kRecordsBytes);
    open_ = true;
    return kThrough;
  }

  Passed Receive(std::span<const iovec> parts) override {
    Passed passed;
    ERR_clear_error();
    socket_.BeginPass();
    for (const iovec& part : parts) {
      for (size_t filled = 0; filled < part.iov_len;) {
        size_t count = 0;
        int done = SSL_read_ex(ssl_.get(), static_cast<std::byte*>(part.iov_base) + filled,
                               part.iov_len - filled, &count);
        if (done != 1) {
          passed.stop = Stop(done);
          socket_.SendUnsent();  // an alert
          return passed;
        }
        filled += count;
        passed.bytes += count;
      }
    }
    return passed;
  }

  Passed Send(std::span<const iovec> parts) override {
    Passed passed;
    passed.stop = socket_.SendUnsent();
    ERR_clear_error();
    for (Records records(parts); passed.stop == kThrough && !records.empty();) {
      ConstByteSpan record = records.Next();
      size_t taken = 0;
      int done = SSL_write_ex(ssl_.get(), record.data(), record.size(), &taken);
      passed.bytes += taken;
      passed.stop = done == 1 ? kThrough : Stop(done);
      bool enough = records.empty() || socket_.unsent_bytes() >= kSealedBytes;
      if (passed.stop == kThrough && enough) passed.stop = socket_.SendUnsent();
      if (++records_ % records_max_ == 0 && !ChangeKeySoon()) passed.stop = Stop(0);
    }
    return passed;
  }

  size_t unsent_bytes() const override { return socket_.unsent_bytes(); }
  size_t held_bytes_max() const override { return kHeldBytesMax; }
  ConstByteSpan binding() const override { return open_ ? binding_ : ConstByteSpan(); }
  Status Trouble() const override { return trouble_; }

 private:
  bool TakeBinding() {
    constexpr std::string_view kLabel = "EXPORTER-byteps-handshake";
    return SSL_export_keying_material(ssl_.get(), reinterpret_cast<unsigned char*>(binding_.data()),
                                      binding_.size(), kLabel.data(), kLabel.size(), nullptr, 0,
                                      0) == 1;
  }

  // Changes the key before the next record.
  bool ChangeKeySoon() { return SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1; }

  // Returns the reason why a call was not done.
  int Stop(int done) {
    if (!trouble_.ok()) return EPROTO;
    int error = SSL_get_error(ssl_.get(), done);
    if (error == SSL_ERROR_WANT_READ) return EAGAIN;
    if (error == SSL_ERROR_ZERO_RETURN) return kEndOfStream;
    if (socket_.stop() != kThrough) return socket_.stop();
    trouble_ = open_ ? Broken() : Refused();
    if (!socket_.tls()) socket_.Write(kTlsRefusal);
    return EPROTO;
  }

  Status Broken() const {
    const char* reason = ERR_reason_error_string(ERR_peek_error());
    return {StatusCode::kPeerLost, std::string("what came was changed on its way (TLS: ") +
                                       (reason == nullptr ? "no reason" : reason) + ")"};
  }

  Status Refused() const {
    auto error = ERR_peek_error();
    int reason = ERR_GET_REASON(error);
    if (!socket_.tls() || reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION) {
      return {StatusCode::kRefused,
              "it does not speak TLS as this process does; BYTEPS_TLS must be the same everywhere"};
    }
    const char* text = ERR_reason_error_string(error);
    return {StatusCode::kRefused,
            "it has not the same key for TLS; BYTEPS_JOB_ID and BYTEPS_JOB_SECRET must be the same "
            "everywhere (" +
                std::string(text == nullptr ? "no reason" : text) + ")"};
  }

  Socket socket_;
  std::unique_ptr<SSL, Free<SSL_free>> ssl_;
  const uint64_t records_max_;
  uint64_t records_ = 0;
  bool open_ = false;
  std::array<std::byte, 32> binding_{};
  Status trouble_;
};

class TlsChannels final : public ByteChannels {
 public:
  explicit TlsChannels(const TlsKey& key) : key_(key), method_(MakeMethod()) {}

  // Prepares the context. Returns false if this OpenSSL lacks something.
  bool Prepare() {
    context_.reset(SSL_CTX_new(TLS_method()));
    SSL_CTX* context = context_.get();
    if (context == nullptr || method_ == nullptr) return false;
    // Sets everything that a configuration file of the system could have changed.
    SSL_CTX_clear_options(context, SSL_CTX_get_options(context));
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_security_level(context, 2);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_app_data(context, this);
    SSL_CTX_set_psk_use_session_callback(context, UseKey);
    SSL_CTX_set_psk_find_session_callback(context, FindKey);
    return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
           SSL_CTX_set1_groups_list(context, "X25519") == 1 &&
           SSL_CTX_set_num_tickets(context, 0) == 1;
  }

  std::unique_ptr<ByteChannel> Make(int socket, Side side) const override {
    return std::make_unique<TlsChannel>(context_.get(), method_.get(), socket, side,
                                        key_.records_max);
  }

 private:
  static const TlsChannels& Of(SSL* ssl) {
    return *static_cast<const TlsChannels*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  }

  // Makes a new session for each connection, because the connection writes to it.
  Session KeyAsSession(SSL* ssl) const {
    constexpr std::array<unsigned char, 2> kAes128GcmSha256 = {0x13, 0x01};
    const SSL_CIPHER* suite = SSL_CIPHER_find(ssl, kAes128GcmSha256.data());
    Session session(SSL_SESSION_new());
    const auto* bytes = reinterpret_cast<const unsigned char*>(key_.bytes.data());
    bool complete = suite != nullptr && session != nullptr &&
                    SSL_SESSION_set1_master_key(session.get(), bytes, key_.bytes.size()) == 1 &&
                    SSL_SESSION_set_cipher(session.get(), suite) == 1 &&
                    SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1;
    return complete ? std::move(session) : nullptr;
  }

  static int UseKey(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* identity_bytes,
                    SSL_SESSION** session) {
    const TlsChannels& channels = Of(ssl);
    *identity = reinterpret_cast<const unsigned char*>(channels.key_.identity.data());
    *identity_bytes = channels.key_.identity.size();
    *session = channels.KeyAsSession(ssl).release();
    return *session != nullptr ? 1 : 0;
  }

  // Finds the key by its name. A peer that names another key gets none, and the handshake ends
  // because there is no certificate.
  static int FindKey(SSL* ssl, const unsigned char* identity, size_t identity_bytes,
                     SSL_SESSION** session) {
    const TlsChannels& channels = Of(ssl);
    std::string_view named(reinterpret_cast<const char*>(identity), identity_bytes);
    *session = nullptr;
    if (named != channels.key_.identity) return 1;
    *session = channels.KeyAsSession(ssl).release();
    return *session != nullptr ? 1 : 0;
  }

  const TlsKey key_;
  const Method method_;
  Context context_;
};

}  // namespace

Result<std::unique_ptr<ByteChannels>> MakeTlsChannels(const TlsKey& key) {
  StartCrypto();
  auto channels = std::make_unique<TlsChannels>(key);
  if (channels->Prepare()) return std::unique_ptr<ByteChannels>(std::move(channels));
  const char* reason = ERR_reason_error_string(ERR_peek_error());
  return Status(StatusCode::kInternal, std::string("this OpenSSL cannot do what TLS needs: ") +
                                           (reason == nullptr ? "no reason" : reason));
}

}  // namespace byteps::transport
