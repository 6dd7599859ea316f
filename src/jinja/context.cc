#include "jinja/context.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>

namespace pagoda::jinja {
namespace {

Value convert(const boost::json::value& json, bool user, int depth) {
  if (depth > kMaxDepth) fail(ErrorKind::limit, "the context is nested too deeply");
  switch (json.kind()) {
    case boost::json::kind::null:
      return {};
    case boost::json::kind::bool_:
      return Value::boolean(json.get_bool());
    case boost::json::kind::int64:
      return Value::integer(json.get_int64());
    case boost::json::kind::uint64: {
      const std::uint64_t number = json.get_uint64();
      if (number <= INT64_MAX) return Value::integer(static_cast<std::int64_t>(number));
      auto big = std::make_shared<BigInteger>();
      big->digits = std::to_string(number);
      return {Kind::big_integer, std::move(big)};
    }
    case boost::json::kind::double_:
      return Value::real(json.get_double());
    case boost::json::kind::string:
      return Value::string(std::string(json.get_string()), user);
    case boost::json::kind::array: {
      std::vector<Value> items;
      items.reserve(json.get_array().size());
      for (const auto& item : json.get_array()) items.push_back(convert(item, user, depth + 1));
      return Value::list(std::move(items));
    }
    case boost::json::kind::object: {
      Dict dict;
      for (const auto& member : json.get_object()) {
        dict.set(Value::string(std::string(member.key()), user), convert(member.value(), user, depth + 1));
      }
      return Value::dict(std::move(dict));
    }
  }
  return {};
}

}  // namespace

Value from_json(const boost::json::value& json, bool user) { return convert(json, user, 0); }

}  // namespace pagoda::jinja
