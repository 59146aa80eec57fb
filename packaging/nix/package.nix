# One of the two programs, with its manual pages and completions; `ackwise` with its units, too.
{
  lib,
  rustPlatform,
  installShellFiles,
  llvmPackages,
  libbpf,
  linuxHeaders,
  program,
}:

let
  cargo = builtins.fromTOML (builtins.readFile ../../Cargo.toml);
in
rustPlatform.buildRustPackage {
  pname = program;
  version = cargo.workspace.package.version;
  src = ../..;
  cargoLock.lockFile = ../../Cargo.lock;
  cargoBuildFlags = [
    "-p"
    program
  ];
  nativeBuildInputs = [
    installShellFiles
    # The wrapper's flags are not for BPF.
    llvmPackages.clang-unwrapped
    llvmPackages.llvm
  ];
  env = {
    ACKWISE_CLANG = "${llvmPackages.clang-unwrapped}/bin/clang";
    CPATH = "${libbpf}/include:${linuxHeaders}/include";
  };
  # The tests make namespaces and load BPF programs: `make test` runs them as root.
  doCheck = false;
  postInstall = ''
    mkdir pages
    $out/bin/${program} man pages
    for page in packaging/man/${program}/*; do
      substitute "$page" "pages/''${page##*/}" --replace-quiet @VERSION@ ${cargo.workspace.package.version}
    done
    installManPage pages/*
    installShellCompletion --cmd ${program} \
      --bash <($out/bin/${program} completions bash) \
      --zsh <($out/bin/${program} completions zsh) \
      --fish <($out/bin/${program} completions fish)
  ''
  + lib.optionalString (program == "ackwise") ''
    mkdir -p $out/lib/systemd/system
    for unit in packaging/systemd/*.service; do
      substitute "$unit" "$out/lib/systemd/system/''${unit##*/}" --replace-fail /usr/local/bin/ $out/bin/
    done
  '';
  meta = {
    description = cargo.workspace.package.description or "Makes TCP's acknowledgments cheap, safely";
    license = with lib.licenses; [
      asl20
      mit
      gpl2Only
      bsd2
    ];
    mainProgram = program;
    platforms = lib.platforms.linux;
  };
}
