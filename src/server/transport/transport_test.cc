// TLS and Unix sockets in front of the server, by a client of OpenSSL's own.
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "server/running_server.h"

namespace pagoda {
namespace {

using std::chrono::milliseconds;

// A fresh key and its certificate, signed by itself, in one PEM file.
std::string make_certificate(const std::string& name) {
  const std::string path = ::testing::TempDir() + "pagoda_" + name + ".pem";
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_set_version(certificate, 2);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  X509_set_pubkey(certificate, key);
  X509_sign(certificate, key, EVP_sha256());
  std::FILE* file = std::fopen(path.c_str(), "w");
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  PEM_write_X509(file, certificate);
  std::fclose(file);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return path;
}

// A blocking TLS client.
class TlsClient {
 public:
  struct Options {
    int version = 0;               // the only one; 0: any
    std::string alpn = {};         // one protocol; empty: none is offered
    std::string certificate = {};  // the client's own
    std::string ciphers = {};      // TLS 1.2 alone
    int receive_buffer = 0;        // bytes; 0: as the system has it
  };
  explicit TlsClient(std::uint16_t port) : TlsClient(port, Options()) {}
  TlsClient(std::uint16_t port, const Options& options) : context_(SSL_CTX_new(TLS_client_method())) {
    if (options.version != 0) {
      SSL_CTX_set_min_proto_version(context_, options.version);
      SSL_CTX_set_max_proto_version(context_, options.version);
    }
    if (options.version == TLS1_1_VERSION) SSL_CTX_set_cipher_list(context_, "ALL:@SECLEVEL=0");
    if (!options.ciphers.empty()) SSL_CTX_set_cipher_list(context_, options.ciphers.c_str());
    if (!options.certificate.empty()) {
      SSL_CTX_use_certificate_file(context_, options.certificate.c_str(), SSL_FILETYPE_PEM);
      SSL_CTX_use_PrivateKey_file(context_, options.certificate.c_str(), SSL_FILETYPE_PEM);
    }
    ssl_ = SSL_new(context_);
    if (!options.alpn.empty()) {
      const std::string wire = concat(static_cast<char>(options.alpn.size()), options.alpn);
      SSL_set_alpn_protos(ssl_, reinterpret_cast<const unsigned char*>(wire.data()),
                          static_cast<unsigned>(wire.size()));
    }
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (const int size = options.receive_buffer; size > 0)
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    SSL_set_fd(ssl_, fd_);
    connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    ::close(fd_);
  }
  TlsClient(const TlsClient&) = delete;

  bool connected() const { return connected_; }
  SSL* ssl() { return ssl_; }
  bool send(std::string_view text) { return SSL_write(ssl_, text.data(), static_cast<int>(text.size())) > 0; }
  // Up to `end`; what there is where the connection ends first.
  std::string read_to(std::string_view end) {
    for (std::size_t from = 0; text_.find(end, from) == std::string::npos;) {
      from = text_.size() < end.size() ? 0 : text_.size() - end.size();
      char bytes[4096];
      const int count = SSL_read(ssl_, bytes, sizeof bytes);
      if (count <= 0) break;
      text_.append(bytes, static_cast<std::size_t>(count));
    }
    return text_;
  }
  bool something_has_come() const {
    int bytes = 0;
    return ioctl(fd_, FIONREAD, &bytes) == 0 && bytes > 0;
  }
  void forget() { text_.clear(); }

 private:
  SSL_CTX* context_;
  SSL* ssl_ = nullptr;
  int fd_ = -1;
  bool connected_ = false;
  std::string text_;
};

constexpr std::string_view kHealth = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

std::string post(std::string_view body) {
  return concat("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n",
                "Content-Length: ", body.size(), "\r\n\r\n", body);
}

ServerConfig with_tls() {
  ServerConfig config;
  config.tls.certificates = make_certificate("server");
  return config;
}

TEST(Tls, AnswersStreamsAndLargeBodies) {
  RunningServer running(with_tls());
  EXPECT_TRUE(running.server->url().starts_with("https://"));
  for (const int version : {0, TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(running.port(), {.version = version, .alpn = "http/1.1"});
    ASSERT_TRUE(client.connected()) << version;
    const unsigned char* chosen = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(client.ssl(), &chosen, &size);
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(chosen), size), "http/1.1");
    client.send(kHealth);
    EXPECT_NE(client.read_to("ok\"}").find("200 OK"), std::string::npos);
    client.forget();
    client.send(post(kStream));
    EXPECT_NE(client.read_to("0\r\n\r\n").find("data: [DONE]"), std::string::npos);
    client.forget();
    // Larger than a record, than a socket's buffer, and than what is read at a time.
    const std::string text(3'000'000, 'a');
    client.send(concat("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n",
                       "Content-Length: ", text.size() + 32, "\r\n\r\n{\"prompt\":\"", text, "\"}",
                       std::string(32 - 13, ' ')));
    EXPECT_NE(client.read_to("\r\n\r\n").find("HTTP/1.1 400"), std::string::npos);  // too long for the model
  }
}

TEST(Tls, AnswersLargerThanTheSocketTakes) {
  RunningServer running(with_tls());
  TlsClient client(running.port(), {.receive_buffer = 16 << 10});
  client.send(post(R"({"prompt":"abc","add_special_tokens":false,"max_tokens":4000,"n":100,"logprobs":0})"));
  ASSERT_TRUE(eventually([&] { return client.something_has_come(); }, milliseconds(60'000)));
  const std::string answer = client.read_to("\"total_tokens\":");
  EXPECT_GT(answer.size(), 8'000'000u) << "more than the buffers of both sides together";
  EXPECT_NE(answer.find("\"total_tokens\":"), std::string::npos);
}

TEST(Tls, OldVersionsWeakCiphersAndOtherProtocolsAreRefused) {
  RunningServer running(with_tls());
  EXPECT_FALSE(TlsClient(running.port(), {.version = TLS1_1_VERSION}).connected());
  EXPECT_FALSE(TlsClient(running.port(), {.alpn = "h2"}).connected());
  for (const char* weak : {"AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA384",
                           "DHE-RSA-AES128-GCM-SHA256"})
    EXPECT_FALSE(TlsClient(running.port(), {.version = TLS1_2_VERSION, .ciphers = weak}).connected()) << weak;
  TestClient plain(running.port());
  plain.send(kHealth);
  EXPECT_EQ(plain.read_response().status, 0);
  EXPECT_TRUE(TlsClient(running.port()).connected());
}

TEST(Tls, AHandshakeThatDoesNotEndIsCutOff) {
  ServerConfig config = with_tls();
  config.head_timeout = milliseconds(100);
  RunningServer running(config);
  TestClient silent(running.port());
  EXPECT_TRUE(silent.closed_by_peer());
  TestClient half(running.port());
  half.send(std::string_view("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11));
  EXPECT_TRUE(half.closed_by_peer());
}

TEST(Tls, ClientsCertificates) {
  ServerConfig config = with_tls();
  const std::string ours = make_certificate("client"), foreign = make_certificate("foreign");
  config.tls.client_ca = ours;
  config.tls.client_certificates = 2;
  RunningServer running(config);
  const auto served = [&](const std::string& certificate) {
    TlsClient client(running.port(), {.certificate = certificate});
    return client.send(kHealth) && client.read_to("ok\"}").find("200 OK") != std::string::npos;
  };
  EXPECT_TRUE(served(ours));
  EXPECT_FALSE(served(foreign));
  EXPECT_FALSE(served(""));
}

TEST(Tls, ClientThatHangsUpFreesItsRequest) {
  RunningServer running(with_tls());
  running.engine.pause_ms = 1;
  {
    TlsClient client(running.port());
    client.send(post(kLongStream));
    client.read_to("data: ");
  }
  EXPECT_TRUE(eventually([&] { return running.engine.num_running() == 0; }, milliseconds(2000)));
}

TlsFiles files_of(std::string certificates, std::string key = {}, std::string ca = {}, int clients = 0) {
  return {.certificates = std::move(certificates),
          .key = std::move(key),
          .client_ca = std::move(ca),
          .client_certificates = clients};
}

TEST(Tls, BadFilesAreToldByName) {
  const std::string good = make_certificate("server"), other = make_certificate("other");
  const std::string text = ::testing::TempDir() + "pagoda_no.pem";
  std::ofstream(text) << "no certificate";
  EXPECT_TRUE(TlsContext::load(files_of(good)).has_value());
  EXPECT_TRUE(TlsContext::load(files_of(good, "", other, 1)).has_value());
  for (const TlsFiles& files :
       {files_of(text), files_of("/nowhere.pem"), files_of(good, text), files_of(good, other),
        files_of(good, "", "", 1), files_of(good, "", text, 1)}) {
    const auto context = TlsContext::load(files);
    ASSERT_FALSE(context.has_value());
    EXPECT_EQ(context.error().message().find("error:"), std::string::npos) << context.error().message();
  }
  // Options without an effect are no plain server.
  for (const TlsFiles& files :
       {files_of("", good), files_of("", "", good), files_of("", "", "", 2), files_of(good, "", other, 0)}) {
    EXPECT_FALSE(TlsStore().load(files).ok());
    ServerConfig config;
    config.port = 0;
    config.tls = files;
    EXPECT_EQ(Server::check(config).code(), StatusCode::invalid_argument);
  }
  TlsStore store;
  ASSERT_TRUE(store.load(files_of(good)).ok());
  const auto before = store.current();
  std::filesystem::copy_file(text, good, std::filesystem::copy_options::overwrite_existing);
  EXPECT_FALSE(store.reload().ok());
  EXPECT_EQ(store.current(), before);
}

class LocalClient {
 public:
  explicit LocalClient(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~LocalClient() { ::close(fd_); }
  LocalClient(const LocalClient&) = delete;
  bool connected() const { return connected_; }
  // The status of a GET.
  int get(const std::string& path) {
    const std::string text =
        concat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    if (::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) < 0) return 0;
    std::string answer;
    char bytes[4096];
    for (ssize_t n; (n = ::recv(fd_, bytes, sizeof bytes, 0)) > 0;)
      answer.append(bytes, static_cast<std::size_t>(n));
    return answer.size() > 12 ? std::atoi(answer.c_str() + 9) : 0;
  }

 private:
  int fd_;
  bool connected_ = false;
};

TEST(UnixSockets, TheOperatorsOwnIsAnAdministratorWithoutAKey) {
  ServerConfig config;
  config.api_keys = {"one", "two"};
  config.admin_socket = ::testing::TempDir() + "pagoda_admin.sock";
  {
    RunningServer running(config);
    struct stat info{};
    ASSERT_EQ(::stat(config.admin_socket.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    EXPECT_EQ(LocalClient(config.admin_socket).get("/admin/usage"), 200);
    EXPECT_EQ(LocalClient(config.admin_socket).get("/admin/prefixes"), 200);
    TestClient client(running.port());
    EXPECT_EQ(client.get("/admin/usage", "Authorization: Bearer one\r\n").status, 403);
    ServerConfig second = config;
    second.port = 0;
    EXPECT_NE(Server::check(second).message().find("another server listens on it"), std::string::npos);
    EXPECT_EQ(LocalClient(config.admin_socket).get("/health"), 200);  // which the check left alone
  }
  EXPECT_FALSE(std::filesystem::exists(config.admin_socket));
}

TEST(UnixSockets, InsteadOfThePort) {
  ServerConfig config;
  config.uds = ::testing::TempDir() + "pagoda_uds.sock";
  // Left by a server that was killed.
  const int stale = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, config.uds.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(stale, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(stale);
  {
    RunningServer running(config);
    EXPECT_EQ(running.port(), 0);
    EXPECT_EQ(LocalClient(config.uds).get("/v1/models"), 200);
  }
  EXPECT_FALSE(std::filesystem::exists(config.uds));
  std::ofstream(config.uds) << "a file";
  EXPECT_NE(Server::check(config).message().find("not a socket"), std::string::npos);
  std::filesystem::remove(config.uds);
  config.uds = std::string(200, 'x');
  EXPECT_FALSE(Server::check(config).ok());
}

}  // namespace
}  // namespace pagoda
