#include "api/status.hpp"
#include "api/versioned.hpp"
#include "format/checkpoint.hpp"
#include "format/presets.hpp"

using namespace nvfp4r;

nvfp4r_status nvfp4r_settings_preset(const char* name, nvfp4r_settings* settings) {
    return guarded("nvfp4r_settings_preset", [&] {
        if (!name) fail(NVFP4R_INVALID_ARGUMENT, "name: NULL");
        check_size(settings, "settings");
        write_struct(settings, preset(name).settings);
    });
}

uint32_t nvfp4r_preset_count(void) {
    return static_cast<uint32_t>(presets().size());
}

const char* nvfp4r_preset_name(uint32_t index) {
    return index < presets().size() ? presets()[index].name : nullptr;
}

nvfp4r_status nvfp4r_settings_from_checkpoint(const char* path, nvfp4r_settings* settings) {
    return guarded("nvfp4r_settings_from_checkpoint", [&] {
        if (!path) fail(NVFP4R_INVALID_ARGUMENT, "path: NULL");
        check_size(settings, "settings");
        write_struct(settings, settings_from_config(path));
    });
}
