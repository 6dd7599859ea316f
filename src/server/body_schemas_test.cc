// Goal: /openapi.json says of each body what its parser reads, and nothing else. Method: the sample bodies of
// all routes go through their handlers under a FieldRecorder; which fields are required and which values a
// string may have is asked of the parsers, too. PAGODA_WRITE_BODY_SCHEMAS=1 writes body_schemas.inc anew.
#include "server/body_schemas.h"

#include <gtest/gtest.h>

#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "api/field_recorder.h"
#include "base/plain_numbers.h"
#include "server/in_process.h"
#include "server/sample_bodies.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr const char* kFile = "src/server/body_schemas.inc";

struct Sample {
  json::object body;
  Serves serves = Serves::text;
};

class Schemas {
 public:
  // The schema of a route's body, as its parser and the samples have it.
  std::string of(const Route& route) {
    std::vector<Sample> samples;
    for (const SampleBody& sample : kSampleBodies)
      if (sample.path == route.facts.path)
        samples.push_back({json::parse(sample.body).as_object(), sample.serves});
    std::set<std::string> required;
    json::object schema = read(route, samples);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const std::set<std::string> of_this = required_by(route, samples[i]);
      if (i == 0)
        required = of_this;
      else
        std::erase_if(required, [&](const std::string& name) { return !of_this.contains(name); });
    }
    for (const Sample& sample : samples) add_values(route, sample, schema);
    leave_out_models_limits(schema);
    for (auto& [name, field] : schema.at("properties").as_object()) {
      allow_null_inside(field.as_object());
      if (!required.contains(name)) allow_null(field.as_object());
    }
    if (!required.empty()) {
      json::array names;
      for (const std::string& name : required) names.emplace_back(name);
      schema["required"] = std::move(names);
    }
    return plain_numbers(json::serialize(schema));
  }

 private:
  json::object read(const Route& route, const std::vector<Sample>& samples) {
    FieldRecorder recorder;
    for (const Sample& sample : samples) (void)ask(route, sample, sample.body);  // accepted or not
    return recorder.schema();
  }

  Status ask(const Route& route, const Sample& sample, const json::object& body) {
    server_.serve(sample.serves);
    return server_.answer(route, json::serialize(body)).refused;
  }

  std::set<std::string> required_by(const Route& route, const Sample& sample) {
    std::set<std::string> out;
    for (const auto& [name, value] : sample.body) {
      json::object without = sample.body;
      without.erase(name);
      FieldRecorder recorder;
      if (!ask(route, sample, without).ok() && recorder.required().contains(name)) out.insert(name);
    }
    return out;
  }

  // The place `path` of the schema, with lists' places as their items; null: there is none.
  static json::object* place_in(json::object* schema, std::string_view path) {
    while (schema != nullptr && !path.empty()) {
      const std::string_view part = path.substr(0, path.find('.'));
      path.remove_prefix(std::min(path.size(), part.size() + 1));
      const bool is_item = part.find_first_not_of("0123456789") == std::string_view::npos;
      json::object* next = nullptr;
      const auto look = [&](json::object& kind) {
        json::value* inside = kind.if_contains(is_item ? "items" : "properties");
        if (inside != nullptr && !is_item) inside = inside->as_object().if_contains(part);
        if (inside != nullptr && inside->is_object()) next = &inside->as_object();
      };
      look(*schema);
      if (json::value* kinds = schema->if_contains("anyOf"))
        for (json::value& kind : kinds->as_array()) look(kind.as_object());
      schema = next;
    }
    return schema;
  }

  // Adds, for each string of a body that has only some values, those that its parser names and takes.
  void add_values(const Route& route, const Sample& sample, json::object& schema) {
    json::value body = sample.body;
    for (const auto& field : schema.at("properties").as_object())
      body.as_object().emplace(field.key(), nullptr);  // as good as absent
    add_values(route, sample, body, body, "", schema);
  }
  void add_values(const Route& route, const Sample& sample, json::value& body, json::value& node,
                  const std::string& path, json::object& schema) {
    const auto inside = [&](std::string_view part) {
      return path.empty() ? std::string(part) : concat(path, ".", part);
    };
    if (json::object* object = node.if_object())
      for (auto& [name, value] : *object) add_values(route, sample, body, value, inside(name), schema);
    if (json::array* list = node.if_array())
      for (std::size_t i = 0; i < list->size(); ++i)
        add_values(route, sample, body, (*list)[i], inside(std::to_string(i)), schema);
    json::object* place = node.is_structured() ? nullptr : place_in(&schema, path);
    if (place == nullptr || !place->contains("type") || place->at("type") != "string") return;
    const json::value given = std::exchange(node, "no such value");
    const Status refused = ask(route, sample, body.as_object());
    json::array values;
    if (!refused.ok() && refused.param() == path) {
      for (const std::string& value : listed(std::string(refused.message()))) {
        node = value;
        const Status taken = ask(route, sample, body.as_object());
        if (taken.ok() || taken.param() != path) values.emplace_back(value);
      }
    }
    if (values.size() > 1) (*place)["enum"] = std::move(values);
    node = given;
  }

  // "must be one of a, b, c" and "must be 'a' or 'b'" -> the values.
  static std::vector<std::string> listed(const std::string& message) {
    constexpr std::string_view kOneOf = "must be one of ", kMust = "must be '";
    const std::size_t list = message.find(kOneOf), quoted = message.find(kMust);
    std::vector<std::string> out;
    if (list != std::string::npos) {
      std::string word;
      for (const char c : message.substr(list + kOneOf.size()) + ",") {
        if (c == ',') out.push_back(std::exchange(word, {}));
        if (c != ',' && c != ' ' && c != '.') word += c;
      }
    } else if (quoted != std::string::npos) {
      for (std::size_t at = quoted + kMust.size() - 1; at < message.size();) {
        const std::size_t begin = message.find('\'', at), end = message.find('\'', begin + 1);
        if (begin == std::string::npos || end == std::string::npos) break;
        out.push_back(message.substr(begin + 1, end - begin - 1));
        at = end + 1;
      }
    }
    return out;
  }

  // Bounds of the test's model and of what its server has been started with, which others do not have.
  void leave_out_models_limits(json::value& value) {
    if (json::array* list = value.if_array())
      for (json::value& one : *list) leave_out_models_limits(one);
    if (json::object* object = value.if_object()) leave_out_models_limits(*object);
  }
  void leave_out_models_limits(json::object& schema) {
    constexpr double kAny = 1e15;
    for (const char* bound : {"maximum", "maxItems"}) {
      const json::value* limit = schema.if_contains(bound);
      if (limit == nullptr || !limit->is_number()) continue;
      const auto number = limit->to_number<double>();
      const ApiContext& model = model_.context;
      const bool is_models = std::ranges::any_of(std::array{model.max_model_len, model.vocab_size},
                                                 [&](auto one) { return std::abs(number - one) <= 1; });
      if (is_models || number == model.max_logprobs || number > kAny) schema.erase(bound);
    }
    const json::value* least = schema.if_contains("minimum");
    if (least != nullptr && least->is_number() && least->to_number<double>() < -kAny) schema.erase("minimum");
    for (auto& [name, value] : schema) {
      if (name == "dimensions" && value.is_object()) value.as_object().erase("maximum");
      leave_out_models_limits(value);
    }
  }

  // Null is as good as absent.
  static void allow_null(json::object& field) {
    if (field.empty()) return;
    const json::object null = {{"type", "null"}};
    if (json::value* kinds = field.if_contains("anyOf")) {
      kinds->as_array().push_back(null);
    } else if (field.contains("enum")) {
      json::object given = std::exchange(field, {});
      field["anyOf"] = json::array{std::move(given), null};
    } else {
      field["type"] = json::array{field.at("type"), "null"};
    }
  }
  static void allow_null_inside(json::object& schema) {
    if (json::value* kinds = schema.if_contains("anyOf"))
      for (json::value& kind : kinds->as_array()) allow_null_inside(kind.as_object());
    if (json::value* items = schema.if_contains("items")) allow_null_inside(items->as_object());
    if (json::value* properties = schema.if_contains("properties")) {
      for (auto& [name, field] : properties->as_object()) {
        allow_null_inside(field.as_object());
        allow_null(field.as_object());
      }
    }
  }

  InProcess server_;
  TestModel model_{1024};
};

std::string made() {
  Schemas schemas;
  std::string out;
  for (const Route& route : InProcess().routes())
    if (route.facts.body == BodyForm::json)
      out += concat("{\"", route.facts.path, "\", R\"json(", schemas.of(route), ")json\"},\n");
  return out;
}

TEST(BodySchemas, AreWhatTheParsersRead) {
  const std::string now = made();
  const std::string path = concat(PAGODA_SOURCE_DIR, "/", kFile);
  if (std::getenv("PAGODA_WRITE_BODY_SCHEMAS") != nullptr) std::ofstream(path) << now;
  std::ifstream file(path);
  std::ostringstream kept;
  kept << file.rdbuf();
  EXPECT_EQ(kept.str(), now)
      << "the parsers read other fields: run this test with PAGODA_WRITE_BODY_SCHEMAS=1";
}

TEST(BodySchemas, KnowTypesRangesAndWhatIsRequired) {
  const json::object chat = json::parse(body_schema("/v1/chat/completions")).as_object();
  EXPECT_EQ(chat.at("required"), json::array{"messages"});
  const json::object& fields = chat.at("properties").as_object();
  EXPECT_EQ(fields.at("temperature").at("minimum").to_number<double>(), 0);
  EXPECT_EQ(fields.at("stream").at("type"), (json::array{"boolean", "null"}));
  EXPECT_TRUE(fields.at("stream_options").as_object().at("properties").as_object().contains("include_usage"));
  const json::object& type = fields.at("response_format").at("properties").at("type").as_object();
  EXPECT_EQ(type.at("anyOf").at(0).at("enum").as_array().size(), 6u);
  EXPECT_EQ(body_schema("/nowhere"), "");
}

}  // namespace
}  // namespace pagoda
