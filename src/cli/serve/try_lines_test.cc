#include "cli/serve/try_lines.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

struct Served {
  Served() : chat(*ChatTemplate::parse("{{ messages }}")) {
    api.model_names = {"tiny"};
    api.chat_template = &chat;
  }
  ChatTemplate chat;
  ApiContext api;
  ServerFlags flags;
  std::string lines(std::string_view url = "http://127.0.0.1:8000") const {
    return try_lines(url, flags, api);
  }
};

TEST(TryLines, AreACommandAndThePage) {
  EXPECT_EQ(Served().lines(),
            "Pagoda serves tiny at http://127.0.0.1:8000\n"
            "Try it:\n"
            "  curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \\\n"
            "    -d '{\"model\": \"tiny\", \"messages\": [{\"role\": \"user\", \"content\": \"What is the "
            "capital of "
            "Japan?\"}], \"temperature\": 0}'\n"
            "Or open http://127.0.0.1:8000/ in a browser.\n");
}

TEST(TryLines, SayWhatTheServerAsksFor) {
  Served served;
  served.flags.api_keys = {"secret"};
  served.flags.ssl_certfile = "cert.pem";
  const std::string lines = served.lines("https://0.0.0.0:8000");
  EXPECT_NE(lines.find("serves tiny at https://0.0.0.0:8000\n"), std::string::npos);
  EXPECT_NE(lines.find("curl -k https://127.0.0.1:8000/v1"), std::string::npos) << lines;
  EXPECT_NE(lines.find("-H \"Authorization: Bearer $PAGODA_API_KEY\""), std::string::npos) << lines;
  EXPECT_EQ(lines.find("secret"), std::string::npos);
  served.flags = {};
  served.flags.uds = "/tmp/p.sock";
  served.flags.api_key_file = "keys.yaml";
  const std::string local = served.lines("http://localhost");
  EXPECT_NE(local.find("curl --unix-socket /tmp/p.sock http://localhost/v1/chat"), std::string::npos)
      << local;
  EXPECT_NE(local.find("$PAGODA_API_KEY"), std::string::npos);
  EXPECT_EQ(local.find("browser"), std::string::npos);
}

TEST(TryLines, AreOfWhatTheModelMakesAndOfWhatIsServed) {
  Served served;
  served.flags.page = false;
  served.flags.apis = {"ollama", "anthropic"};
  EXPECT_NE(served.lines().find("/v1/messages"), std::string::npos);
  EXPECT_EQ(served.lines().find("browser"), std::string::npos);
  served.flags.apis.clear();
  served.api.chat_template = nullptr;
  EXPECT_NE(served.lines().find("/v1/completions"), std::string::npos);
  served.api.vectors.emplace().kind = WorkKind::embed;
  EXPECT_NE(served.lines().find("/v1/embeddings"), std::string::npos);
  served.api.vectors->kind = WorkKind::score;
  served.api.vectors->size = 1;
  EXPECT_NE(served.lines().find("/score"), std::string::npos);
  served.api.vectors->size = 3;
  EXPECT_NE(served.lines().find("/classify"), std::string::npos);
  served.flags.apis = {"llamacpp"};
  EXPECT_EQ(served.lines(), "Pagoda serves tiny at http://127.0.0.1:8000\n")
      << "nothing that it could be asked for";
}

}  // namespace
}  // namespace pagoda
