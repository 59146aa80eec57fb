# For Nix: `nix build .#ackwise`, and a module for NixOS (packaging/nix/module.nix).
{
  description = "Makes TCP's acknowledgments cheap, safely";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      each =
        of:
        builtins.listToAttrs (
          map (name: {
            inherit name;
            value = of nixpkgs.legacyPackages.${name};
          }) systems
        );
      programs = pkgs: {
        ackwise = pkgs.callPackage ./packaging/nix/package.nix { program = "ackwise"; };
        ackwise-lab = pkgs.callPackage ./packaging/nix/package.nix { program = "ackwise-lab"; };
      };
    in
    {
      packages = each (pkgs: programs pkgs // { default = (programs pkgs).ackwise; });
      overlays.default = final: prev: programs final;
      nixosModules.default = import ./packaging/nix/module.nix self;
    };
}
