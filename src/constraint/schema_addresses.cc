#include "constraint/schema_addresses.h"

#include <boost/json.hpp>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxAddressedDepth = 64;

bool has_scheme(std::string_view uri) {
  const std::size_t colon = uri.find_first_of(":/?#");
  return colon != std::string_view::npos && colon > 0 && uri[colon] == ':';
}

std::string without_fragment(std::string_view uri) { return std::string(uri.substr(0, uri.find('#'))); }

// The start of a URI's path.
std::size_t path_of(std::string_view uri) {
  const std::size_t authority = uri.find("://");
  return authority == std::string_view::npos ? 0 : std::min(uri.find('/', authority + 3), uri.size());
}

std::string without_dots(const std::string& uri) {
  const std::size_t begin = path_of(uri);
  std::vector<std::string_view> parts;
  std::string_view rest = std::string_view(uri).substr(begin);
  while (true) {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    const bool last = slash == std::string_view::npos;
    if (part == "..") {
      if (parts.size() > 1) parts.pop_back();
    } else if (part != ".") {
      parts.push_back(part);
    }
    if (last && (part == "." || part == "..")) parts.push_back("");
    if (last) break;
    rest.remove_prefix(slash + 1);
  }
  std::string out = uri.substr(0, begin);
  for (std::size_t i = 0; i < parts.size(); ++i) out += concat(i > 0 ? "/" : "", parts[i]);
  return out;
}

std::string resolved(const std::string& base, std::string_view reference) {
  if (has_scheme(reference)) return std::string(reference);
  if (reference.empty() || reference.front() == '#') return without_fragment(base) + std::string(reference);
  const std::size_t fragment = std::min(reference.find('#'), reference.size());
  const std::string path(reference.substr(0, fragment));
  const std::string own = without_fragment(base);
  std::string out;
  if (path.starts_with("//"))
    out = concat(own.substr(0, own.find(':') + 1), path);
  else if (path.front() == '/')
    out = own.substr(0, path_of(own)) + path;
  else
    out = own.substr(0, own.rfind('/') == std::string::npos ? 0 : own.rfind('/') + 1) + path;
  return without_dots(out) + std::string(reference.substr(fragment));
}

std::string escaped(std::string_view key) {
  std::string out;
  for (const char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : c == '%' ? "%25" : std::string(1, c);
  return out;
}

class Addresses {
 public:
  explicit Addresses(const json::value& schema) {
    const json::object* object = schema.if_object();
    const json::value* dialect = object == nullptr ? nullptr : object->if_contains("$schema");
    if (dialect == nullptr || !dialect->is_string()) return;
    const std::string_view uri(dialect->as_string());
    older_ = uri.find("/draft-0") != std::string_view::npos;
    newer_ = uri.find("/draft/20") != std::string_view::npos;
  }
  void collect(const json::value& value, const std::string& base, const std::string& place,
               std::size_t depth) {
    walk(value, base, place, depth,
         [this](const json::object& object, const std::string& own, const std::string& at) {
           places_.try_emplace(without_fragment(own), at);
           for (const char* const name : {"$anchor", "$dynamicAnchor"})
             if (const json::value* anchor = object.if_contains(name);
                 anchor != nullptr && anchor->is_string())
               places_.try_emplace(concat(without_fragment(own), "#", std::string_view(anchor->as_string())),
                                   at);
           if (const json::value* name = object.if_contains("$dynamicAnchor");
               name != nullptr && name->is_string())
             ++dynamic_[std::string(name->as_string())];
           const json::value* id = object.if_contains("$id");  // draft 7's anchors
           if (id != nullptr && id->is_string() && id->as_string().starts_with("#"))
             places_.try_emplace(own, at);
         });
  }
  void rewrite(json::value& value, const std::string& base, std::size_t depth) const {
    if (depth > kMaxAddressedDepth) return;
    if (json::array* list = value.if_array())
      for (json::value& one : *list) rewrite(one, base, depth + 1);
    json::object* object = value.if_object();
    if (object == nullptr) return;
    const std::string own = base_of(*object, base);
    // If the whole schema has a single anchor of this name, the dynamic reference is in fact static.
    if (const json::value* dynamic = object->if_contains("$dynamicRef");
        dynamic != nullptr && dynamic->is_string() && dynamic->as_string().starts_with("#") &&
        !object->contains("$ref"))
      if (const auto named = dynamic_.find(std::string(dynamic->as_string().subview(1)));
          named != dynamic_.end() && named->second == 1) {
        (*object)["$ref"] = json::value(*dynamic);
        object->erase("$dynamicRef");
      }
    if (json::value* reference = object->if_contains("$ref");
        reference != nullptr && reference->is_string()) {
      const std::string_view given(reference->as_string());
      const std::string place = place_of(resolved(own, given));
      // Draft 7 ignores an address beside a reference: if the two interpretations differ, the reference is
      // ambiguous.
      const std::string before = own == base ? place : place_of(resolved(base, given));
      const bool same = before == place || before.empty() || newer_;
      if (older_ && !before.empty())
        *reference = json::string(before);
      else if (!place.empty() && same)
        *reference = json::string(place);
    }
    for (auto& entry : *object)
      if (entry.key() != "enum" && entry.key() != "const") rewrite(entry.value(), own, depth + 1);
    if (const json::value* id = object->if_contains("$id"); id != nullptr && id->is_string())
      object->erase("$id");
  }

 private:
  static std::string base_of(const json::object& object, const std::string& base) {
    const json::value* id = object.if_contains("$id");
    return id != nullptr && id->is_string() ? resolved(base, std::string_view(id->as_string())) : base;
  }
  template <class Visit>
  static void walk(const json::value& value, const std::string& base, const std::string& place,
                   std::size_t depth, const Visit& visit) {
    if (depth > kMaxAddressedDepth) return;
    if (const json::array* list = value.if_array())
      for (std::size_t i = 0; i < list->size(); ++i)
        walk((*list)[i], base, concat(place, "/", i), depth + 1, visit);
    const json::object* object = value.if_object();
    if (object == nullptr) return;
    const std::string own = base_of(*object, base);
    if (depth == 0 || own != base || object->contains("$anchor") || object->contains("$dynamicAnchor"))
      visit(*object, own, place);
    for (const auto& entry : *object)
      if (entry.key() != "enum" && entry.key() != "const")
        walk(entry.value(), own, concat(place, "/", escaped(std::string_view(entry.key()))), depth + 1,
             visit);
  }
  // Empty if the URI is not in this schema.
  std::string place_of(const std::string& uri) const {
    if (const auto exact = places_.find(uri); exact != places_.end()) return "#" + exact->second;
    const std::size_t fragment = std::min(uri.find('#'), uri.size());
    const auto document = places_.find(uri.substr(0, fragment));
    if (document == places_.end()) return "";
    const std::string rest = fragment < uri.size() ? uri.substr(fragment + 1) : std::string();
    return rest.empty() || rest.front() == '/' ? concat("#", document->second, rest) : "";
  }

  bool older_ = false, newer_ = false;         // than draft 2019-09, according to `$schema`
  std::map<std::string, std::string> places_;  // by address, with anchors
  std::map<std::string, int> dynamic_;         // number of anchors with this name
};

}  // namespace

json::value references_by_place(const json::value& schema) {
  Addresses addresses(schema);
  addresses.collect(schema, "", "", 0);
  json::value out = schema;
  addresses.rewrite(out, "", 0);
  return out;
}

}  // namespace pagoda
