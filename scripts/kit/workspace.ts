/** The packages of this repository: the kernel at the root, and those below `packages`. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'

/** The parts of a package's own package.json that the scripts and tests read. */
interface Manifest {
  readonly name: string
  readonly version: string
  readonly exports: Readonly<Record<string, string | { readonly 'tandem-source': string; readonly default: string }>>
  readonly browser?: Readonly<Record<string, string>>
  readonly files: readonly string[]
  readonly sideEffects?: false | readonly string[]
  readonly dependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
}

/** A package of this repository. */
export interface Package {
  /** Its folder, relative to the root: `''` for the kernel, or `packages/text`. */
  readonly folder: string
  /** The folder of its sources, such as `packages/text/src`. */
  readonly src: string
  readonly manifest: Manifest
}

const packageOf = (folder: string): Package => ({
  folder,
  src: posix.join(folder, 'src'),
  manifest: JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest, // cast: our own file
})

/** All packages, the kernel first. */
export const PACKAGES: readonly Package[] = [
  packageOf(''),
  ...readdirSync('packages')
    .filter((name) => existsSync(`packages/${name}/package.json`))
    .sort()
    .map((name) => packageOf(`packages/${name}`)),
]

/** The folders of all sources. */
export const SOURCE_FOLDERS: readonly string[] = PACKAGES.map(({ src }) => src)

/** The folders of all tests. */
export const TEST_FOLDERS: readonly string[] = PACKAGES.map(({ folder }) => posix.join(folder, 'test')).filter((path) =>
  existsSync(path),
)

/** Returns true for a file of the sources of any package. */
export const isSource = (path: string): boolean => SOURCE_FOLDERS.some((folder) => path.startsWith(`${folder}/`))

/** Returns the source of a compiled file that a package.json names, such as `./dist/index.js`. */
export const sourceOf = ({ folder }: Package, file: string): string =>
  posix.join(folder, file.replace(/^\.\/dist/, 'src').replace(/\.js$/, '.ts'))

/** All TypeScript files below a folder, in the order of their paths. */
export const typeScriptBelow = (folder: string): readonly string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => posix.join(folder, path))
    .sort()
