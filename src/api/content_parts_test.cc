// Parts of messages that hold files, in the forms of all protocols.
#include "api/content_parts.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

struct ReadParts {
  explicit ReadParts(std::string_view part, Media media = Media::refused)
      : owner(json::parse(concat(R"({"content":[)", part, "]}")).as_object()), fields(owner) {
    for (const ContentPart& each :
         read_parts(fields, "content", owner.at("content").as_array(), warnings, nullptr, media))
      text += each.text;
  }
  json::object owner;
  FieldReader fields;
  Warnings warnings;
  std::string text;
};

// "zebra\n", "{}", and "ä" behind a byte order mark.
constexpr const char *kZebra = "emVicmEK", *kBraces = "e30=", *kMarked = "77u/w6Q=";

TEST(FileParts, WithTextAreRead) {
  const auto text = [](std::string_view part) {
    ReadParts read(part);
    EXPECT_TRUE(read.fields.ok()) << part << read.fields.status().message();
    EXPECT_TRUE(read.warnings.empty()) << part;
    return read.text;
  };
  EXPECT_EQ(text(concat(R"({"type":"input_file","filename":"a.txt","file_data":"data:text/plain;base64,)",
                        kZebra, "\"}")),
            "a.txt\nzebra\n");
  EXPECT_EQ(
      text(concat(R"({"type":"file","file":{"filename":"a.json","file_data":"data:application/json;base64,)",
                  kBraces, "\"}}")),
      "a.json\n{}");
  EXPECT_EQ(text(concat(R"({"type":"input_file","file_data":")", kMarked, "\"}")), "\xC3\xA4");
  EXPECT_EQ(
      text(concat(
          R"({"type":"document","title":"T","source":{"type":"base64","media_type":"text/plain","data":")",
          kZebra, "\"}}")),
      "T\nzebra\n");
}

TEST(FileParts, WithoutTextAreRefusedOrNamed) {
  for (
      const char* part : {
          R"({"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0xLjQK"})",
          R"({"type":"input_file","file_data":"JVBERi0xLjQK"})",  // "%PDF-1.4\n"
          R"({"type":"input_file","file_data":"AAEC"})",          // bytes 0, 1, 2
          R"({"type":"input_file","file_data":"/w=="})",          // no UTF-8
          R"({"type":"input_file","file_data":"no base64!"})",
          R"({"type":"input_file","file_data":"data:image/svg+xml;base64,PHN2Zy8+"})",
          R"({"type":"input_file","file_data":"data:text/plain,as it is"})",
          R"({"type":"input_file","file_data":"data:text/plain;base64"})",
          R"({"type":"input_file","file_id":"file-1"})",
          R"({"type":"input_file","file_url":"http://host/a.txt"})",
          R"({"type":"file","file":{"file_id":"file-1"}})",
          R"({"type":"file"})",
      }) {
    const ReadParts refused(part);
    EXPECT_EQ(refused.fields.status().param(), "content.0.type") << part;
    const ReadParts named(part, Media::named);
    EXPECT_TRUE(named.fields.ok()) << part;
    EXPECT_FALSE(named.warnings.empty()) << part;
    EXPECT_NE(named.text.find("[file left out"), std::string::npos) << part;
  }
  EXPECT_EQ(ReadParts(R"({"type":"file","file":{"file_data":5}})").fields.status().param(),
            "content.0.file.file_data");
  for (const char* source :
       {R"("data":"JVBERi0xLjQK")", R"("media_type":"application/pdf","data":"emVicmEK")"})
    EXPECT_EQ(ReadParts(concat(R"({"type":"document","source":{"type":"base64",)", source, "}}"))
                  .fields.status()
                  .param(),
              "content.0.source.type");
}

}  // namespace
}  // namespace pagoda
