/**
 * Loads modules of the user, such as recipes and losses, from TypeScript or JavaScript files. They
 * need no build step, and share this instance of the package.
 */
import { readFileSync, realpathSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { importPackage } from '@tandem-rl/base/host'
import { readRegularText } from '@tandem-rl/host'

const ROOT = new URL('../../', import.meta.url)

/** The folder below the root with this file, and the file's extension: `src/ts` or `dist/js`. */
const [FOLDER = '', , FILE = ''] = import.meta.url.split('/').slice(-3)
const EXTENSION = FILE.slice(FILE.lastIndexOf('.') + 1)

/** Packages that a module and this program share, with those that the kernel depends on. */
const LEAVES: readonly string[] = [
  ...['@tandem-rl/base', '@tandem-rl/base/host', '@tandem-rl/host', '@tandem-rl/text'],
  ...['@tandem-rl/tfjs-onnxruntime', '@tandem-rl/tfjs-onnxruntime/scope'],
]

/** The name of any package of Tandem in a source text. */
const TANDEM_PACKAGE = /['"](@tandem-rl\/[\w/-]+)['"]/g

/** Other packages of which a module and this program share one instance. */
const SHARED_PACKAGES: Readonly<Record<string, () => Promise<unknown>>> = {
  zod: () => import('zod'),
  'fp-ts/lib/function.js': () => import('fp-ts/lib/function.js'),
}

interface Manifest {
  readonly name: string
  readonly exports: Readonly<Record<string, { readonly default?: string }>>
}

/** Returns the file that is loaded here instead of the published one. */
const fileOf = (published: string): URL =>
  new URL(published.replace('./dist/', `./${FOLDER}/`).replace(/js$/, EXTENSION), ROOT)

/** Imports the modules of this package by the names that users import. */
const sharedModules = async (): Promise<Readonly<Record<string, unknown>>> => {
  const { name, exports } = JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8')) as Manifest // of this package
  const own = Object.entries(exports).flatMap(([path, { default: file }]) =>
    file === undefined ? [] : [[`${name}${path.slice(1)}`, () => import(fileOf(file).href)] as const],
  )
  const leaves = LEAVES.map((each) => [each, () => importPackage<unknown>(each, import.meta)] as const)
  const loaded = [...own, ...leaves, ...Object.entries(SHARED_PACKAGES)].map(
    async ([specifier, load]) => [specifier, await load()] as const,
  )
  return Object.fromEntries(await Promise.all(loaded))
}

/**
 * Imports the packages in a source text that are installed beside this one, such as
 * `@tandem-rl/games`. The module finds others itself.
 */
const guestModules = async (source: string): Promise<Readonly<Record<string, unknown>>> => {
  const names = new Set([...source.matchAll(TANDEM_PACKAGE)].map(([, name = '']) => name))
  const loaded = [...names]
    .filter((name) => !LEAVES.includes(name))
    .map((name) =>
      importPackage<unknown>(name, import.meta).then(
        (module) => [[name, module]] as const,
        () => [],
      ),
    )
  return Object.fromEntries((await Promise.all(loaded)).flat())
}

/**
 * Imports a module of the user by its path or `file:` URL.
 *
 * Errors   rejects with the error of the module, or of its syntax.
 */
export const importUserModule = async (module: string): Promise<Readonly<Record<string, unknown>>> => {
  const path = realpathSync(module.startsWith('file:') ? fileURLToPath(module) : module)
  const [{ createJiti }, shared, guests] = await Promise.all([
    import('jiti'),
    sharedModules(),
    readRegularText(path).then(guestModules),
  ])
  return createJiti(import.meta.url, { fsCache: false, virtualModules: { ...guests, ...shared } }).import(path)
}

/** Returns `true` for the URL of a module outside of the sources of this package. */
export const isUserModule = (url: string): boolean =>
  url.startsWith('file:') && !url.startsWith(new URL(`${FOLDER}/`, ROOT).href)
