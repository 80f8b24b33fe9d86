#include "format/json_file.hpp"

#include <unordered_set>
#include <vector>

#include "core/error.hpp"
#include "format/mapped_file.hpp"

namespace nvfp4r {

nlohmann::json read_json_object(const std::filesystem::path& path) {
    constexpr uint64_t kLargestFile = uint64_t{256} << 20;
    constexpr int kDeepest = 64;
    const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
    if (file->bytes().size() > kLargestFile) {
        fail(NVFP4R_BAD_FILE, "{}: {} bytes of JSON; the limit is {}", path.string(), file->bytes().size(),
             kLargestFile);
    }
    // One set of keys for each object that is open: JSON libraries keep the last of two equal keys without a word.
    std::vector<std::unordered_set<std::string>> open_keys;
    using Event = nlohmann::json::parse_event_t;
    const auto check = [&](int depth, Event event, nlohmann::json& value) {
        if (depth > kDeepest) fail(NVFP4R_BAD_FILE, "{}: nested deeper than {}", path.string(), kDeepest);
        if (event == Event::object_start) open_keys.emplace_back();
        if (event == Event::object_end) open_keys.pop_back();
        if (event == Event::key && !open_keys.back().insert(value.get<std::string>()).second) {
            fail(NVFP4R_BAD_FILE, "{}: key {} appears twice", path.string(), value.dump());
        }
        return true;
    };
    try {
        nlohmann::json json = nlohmann::json::parse(file->bytes().begin(), file->bytes().end(), check);
        if (!json.is_object()) fail(NVFP4R_BAD_FILE, "{}: not a JSON object", path.string());
        return json;
    } catch (const nlohmann::json::exception& e) {
        fail(NVFP4R_BAD_FILE, "{}: {}", path.string(), e.what());
    }
}

}  // namespace nvfp4r
