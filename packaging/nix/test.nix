# Evaluates the flake and its module with stand-ins for nixpkgs: scripts/test-nix reads `found`. The stand-ins are
# `legacyPackages`, as nixpkgs names them.
{ flake, settings }:
let
  lib = {
    getExe = package: "${package}/bin/${package.meta.mainProgram}";
    licenses = builtins.listToAttrs (
      map
        (name: {
          inherit name;
          value = name;
        })
        [
          "asl20"
          "mit"
          "gpl2Only"
          "bsd2"
        ]
    );
    literalMD = text: text;
    mkEnableOption = text: { description = text; };
    mkIf = condition: value: if condition then value else { };
    mkOption = option: option;
    optionalString = condition: text: if condition then text else "";
    platforms.linux = [ ];
    types.package = "package";
  };
  tools = {
    inherit lib;
    installShellFiles = "/installShellFiles";
    libbpf = "/libbpf";
    linuxHeaders = "/linux";
    llvmPackages.clang-unwrapped = "/clang";
    llvmPackages.llvm = "/llvm";
    # The build's arguments are the package.
    rustPlatform.buildRustPackage =
      arguments:
      arguments
      // {
        type = "derivation";
        name = "${arguments.pname}-${arguments.version}";
        outPath = "/package";
        inherit
          (derivation {
            name = arguments.pname;
            system = pkgs.stdenv.hostPlatform.system;
            builder = "/none";
          })
          drvPath
          ;
      };
  };
  pkgs = {
    stdenv.hostPlatform.system = "x86_64-linux";
    # As nixpkgs does: what a function names, and what is given besides.
    callPackage =
      file: given:
      let
        function = import file;
      in
      function (builtins.intersectAttrs (builtins.functionArgs function) (tools // given));
    formats.toml = _: {
      type = "toml";
      generate = _: value: builtins.toJSON value;
    };
    runCommand = name: _: script: { inherit name script; };
  };
  legacyPackages = {
    x86_64-linux = pkgs;
    aarch64-linux = pkgs;
  };
  self = (import flake).outputs {
    self = self;
    nixpkgs = { inherit legacyPackages; };
  };
  # As NixOS does, for the names of interfaces.
  utils.escapeSystemdPath = builtins.replaceStrings [ "-" ] [ "\\x2d" ];
  module = self.nixosModules.default {
    inherit lib pkgs utils;
    config.services.ackwise = {
      enable = true;
      package = self.packages.x86_64-linux.ackwise;
      inherit settings;
    };
  };
  package = program: {
    inherit (program)
      pname
      version
      cargoBuildFlags
      postInstall
      ;
    inherit (program.meta) mainProgram;
    src = toString program.src;
    lock = toString program.cargoLock.lockFile;
  };
in
{
  inherit legacyPackages;
  found = {
    packages = builtins.mapAttrs (
      system: programs: builtins.mapAttrs (name: package) programs
    ) self.packages;
    options = builtins.attrNames module.options.services.ackwise;
    module = {
      inherit (module.config) assertions users;
      file = module.config.environment.etc."ackwise/ackwise.toml".source.script;
      services = builtins.mapAttrs (_: service: service.wantedBy) module.config.systemd.services;
    };
  };
}
