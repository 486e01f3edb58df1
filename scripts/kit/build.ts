/** Compiles the packages of this repository, each after those that it depends on. */
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGES, type Package } from './workspace.js'

/** The names of the packages that a package depends on, peers and those of its types too. */
const needsOf = ({ manifest }: Package): object => ({
  ...manifest.dependencies,
  ...manifest.peerDependencies,
  ...manifest.devDependencies,
})

/** Returns true if a package needs another one, and not the reverse: guests are loaded late. */
const dependsOn = (each: Package, other: Package): boolean =>
  other.manifest.name in needsOf(each) && !(each.manifest.name in needsOf(other))

/** Orders packages so that each comes after those that it depends on. */
const inOrder = (packages: readonly Package[]): readonly Package[] => {
  const [ready, waiting] = [true, false].map((isReady) =>
    packages.filter((each) => packages.every((other) => !dependsOn(each, other)) === isReady),
  ) as [Package[], Package[]] // as many as there are truth values
  if (ready.length === 0) throw new Error(`packages that depend on each other: ${packages.map((each) => each.folder)}`)
  return waiting.length === 0 ? ready : [...ready, ...inOrder(waiting)]
}

/** All packages, each after those that it depends on. */
export const BUILD_ORDER: readonly Package[] = inOrder(PACKAGES)

/**
 * Compiles all packages of a checkout, or of a copy of its sources, from `src` to `dist`. The
 * arguments go to the compiler.
 *
 * Errors   throws if the compiler does.
 */
export const buildPackages = (root: string, args: readonly string[] = []): void => {
  const compiler = join(root, 'node_modules/typescript-7/bin/tsc')
  for (const { folder } of BUILD_ORDER) {
    rmSync(join(root, folder, 'dist'), { recursive: true, force: true })
    const project = join(root, folder, 'tsconfig.build.json')
    execFileSync(process.execPath, [compiler, '-p', project, ...args], { stdio: ['ignore', 'inherit', 'inherit'] })
  }
}
