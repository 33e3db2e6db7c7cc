# A Homebrew formula. `brew update-python-resources hwexplorer` writes its resources with their hashes, and
# `brew bump-formula-pr --url URL hwexplorer` the hash of a release.
class Hwexplorer < Formula
  include Language::Python::Virtualenv

  desc "Full-screen terminal explorer of what neural networks cost on hardware"
  homepage "https://github.com/hwexplorer/hwexplorer"
  url "https://github.com/hwexplorer/hwexplorer.git", tag: "v0.2.0"
  license "MIT"
  head "https://github.com/hwexplorer/hwexplorer.git", branch: "main"

  depends_on "numpy"
  depends_on "python@3.13"

  def install
    virtualenv_install_with_resources
  end

  test do
    assert_match "resnet50", shell_output("#{bin}/hwexplorer compare resnet50 --on l4,t4")
  end
end
