# For NixOS: `ackwise up` as a service on each interface of `services.ackwise.settings`.
#
#   services.ackwise.enable = true;
#   services.ackwise.settings.interface = [ { name = "wan0"; up = "4.75 Mbit/s"; } ];
self:
{
  config,
  lib,
  pkgs,
  utils,
  ...
}:

let
  cfg = config.services.ackwise;
  toml = pkgs.formats.toml { };
  # A fault in it ends the build, and not the service.
  file = pkgs.runCommand "ackwise.toml" { } ''
    ${lib.getExe cfg.package} check ${toml.generate "ackwise.toml" cfg.settings}
    cp ${toml.generate "ackwise.toml" cfg.settings} $out
  '';
  device = interface: utils.escapeSystemdPath interface.name;
  service = interface: {
    name = "ackwise@${device interface}";
    value = {
      overrideStrategy = "asDropin";
      wantedBy = [ "sys-subsystem-net-devices-${device interface}.device" ];
      reloadTriggers = [ file ];
    };
  };
in
{
  options.services.ackwise = {
    enable = lib.mkEnableOption "ackwise, which thins TCP's acknowledgments";
    package = lib.mkOption {
      type = lib.types.package;
      default = self.packages.${pkgs.stdenv.hostPlatform.system}.ackwise;
      defaultText = lib.literalMD "`ackwise` of the flake";
      description = "The package that has `ackwise` and its units.";
    };
    settings = lib.mkOption {
      type = toml.type;
      default = { };
      example.interface = [
        {
          name = "wan0";
          up = "4.75 Mbit/s";
        }
      ];
      description = "Contents of /etc/ackwise/ackwise.toml: ackwise.toml(5).";
    };
  };

  config = lib.mkIf cfg.enable {
    assertions = [
      {
        assertion = (cfg.settings.interface or [ ]) != [ ];
        message = "services.ackwise.settings.interface is empty: name an interface there";
      }
    ];
    environment.systemPackages = [ cfg.package ];
    environment.etc."ackwise/ackwise.toml".source = file;
    systemd.packages = [ cfg.package ];
    systemd.services = builtins.listToAttrs (map service (cfg.settings.interface or [ ]));
    users.users.ackwise = {
      isSystemUser = true;
      group = "ackwise";
      description = "ackwise daemons";
    };
    users.groups.ackwise = { };
  };
}
