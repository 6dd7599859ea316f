#include "server/absent_paths.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

TEST(AbsentPaths, AreKnownWithAndWithoutTheVersionAndWhatIsBelowThem) {
  for (const char* path : {"/v1/audio", "/v1/audio/speech", "/audio/transcriptions"})
    EXPECT_NE(instead_of(path).find("text only"), std::string_view::npos) << path;
  EXPECT_NE(instead_of("/api/create").find("pagoda pull"), std::string_view::npos);
  EXPECT_NE(instead_of("/v1/messages/batches").find("run-batch"), std::string_view::npos);
  for (const char* path : {"/v1beta/models/gemini:generateContent", "/v1beta/models",
                           "/v1/models/x:streamGenerateContent", "/v1/models/x:generateContent"})
    EXPECT_NE(instead_of(path).find("/v1/chat/completions"), std::string_view::npos) << path;
  for (const char* path :
       {"/v2/chat", "/v1/chat", "/invocations", "/generate_stream", "/v2/models/m/generate"})
    EXPECT_NE(instead_of(path).find("/v1/chat/completions"), std::string_view::npos) << path;
  EXPECT_NE(instead_of("/v1/fim/completions").find("/infill"), std::string_view::npos);
  EXPECT_NE(instead_of("/v1/complete").find("/v1/messages"), std::string_view::npos);
  EXPECT_NE(instead_of("/embed_all").find("/v1/embeddings"), std::string_view::npos);
  for (const char* path : {"", "/", "/v1", "/v1/audios", "/v1/other", "/v1/v1/audio"})
    EXPECT_EQ(instead_of(path), "") << path;
}

}  // namespace
}  // namespace pagoda
