/**
 * Runs tfjs-core's own specs on a backend: `npm run verify -- tfjsConformance [--backend NAME]
 * [--library native|web] [--filter TEXT] [--reasons]`.
 *
 * The last line has the counts. Exits with 1 if a spec fails that is not a known exception, or if
 * a known exception passes, and with 2 if the backend cannot be loaded. `--library web` runs
 * onnxruntime on WebAssembly, as browsers do. `--filter` runs the specs whose names contain a
 * text; `--reasons` prints why each exception is one; `--stacks` prints where specs failed.
 */
import { cpSync, existsSync, mkdirSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { build } from 'esbuild'
import { EXCEPTIONS } from '../../test/conformance/exceptions.js'
import { judge, type SpecResult, summaryLine } from '../../test/conformance/judge.js'
import { browserFiles } from '../kit/browserFiles.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const ENTRY = join(ROOT, 'test/conformance/entry.ts')
const FOLDER = join(ROOT, 'node_modules/.cache/tfjs-conformance')
const WASM_PACKAGE = '@tensorflow/tfjs-backend-wasm'

/**
 * The specs call operations as methods of tensors. Their types would let our sources do so too: no
 * file imports them.
 */
const PROGRAM = `
  import '@tensorflow/tfjs-core/dist/index.js'
  import '@tensorflow/tfjs-core/dist/public/chained_ops/register_all_chained_ops.js'
  export * from '${ENTRY}'
`

/** Makes the bundle: every import of tfjs, the engine's too, becomes one copy. Returns its path. */
const bundle = async (library: string): Promise<string> => {
  const outfile = join(FOLDER, 'specs.cjs')
  const wasmFolder = join(ROOT, 'node_modules', WASM_PACKAGE, 'dist')
  const hasWasm = existsSync(wasmFolder)
  await build({
    stdin: { contents: PROGRAM, resolveDir: ROOT },
    outfile,
    bundle: true,
    platform: 'node',
    format: 'cjs',
    conditions: ['tandem-source'],
    mainFields: ['module', 'main'],
    ignoreAnnotations: true, // the packages say that their test files have no side effects
    plugins: library === 'web' ? [browserFiles(['packages/tfjs-onnxruntime/src/onnxruntime/binding'])] : [],
    external: ['jasmine-core', 'node-fetch', ...(hasWasm ? [] : [WASM_PACKAGE])],
    define: { 'import.meta.url': JSON.stringify(pathToFileURL(ENTRY).href) },
    logLevel: 'error',
  })
  mkdirSync(FOLDER, { recursive: true })
  for (const name of hasWasm ? readdirSync(wasmFolder).filter((file) => file.endsWith('.wasm')) : []) {
    cpSync(join(wasmFolder, name), join(FOLDER, name)) // the bundled package looks for them beside itself
  }
  return outfile
}

const { values: options } = parseArgs({
  options: {
    backend: { type: 'string', default: 'onnxruntime' },
    library: { type: 'string', default: 'native' },
    filter: { type: 'string', default: '' },
    reasons: { type: 'boolean', default: false },
    stacks: { type: 'boolean', default: false },
  },
})
const { backend, filter, library } = options
/** With `web`, where the files of onnxruntime-web are. */
const place =
  library === 'web' ? { wasmFolder: pathToFileURL(join(ROOT, 'node_modules/onnxruntime-web/dist/')).href } : {}

const require = createRequire(import.meta.url)
// Cast: the bundle is the compiled entry. This file loads nothing else that loads tfjs: two copies
// share their registries.
const { BACKENDS, isBackendName, NoBackend, runSpecs } = require(
  await bundle(library),
) as typeof import('../../test/conformance/entry.js')
if (!isBackendName(backend)) {
  console.error(`--backend is '${backend}'; expected one of ${BACKENDS.join(', ')}`)
  process.exit(2)
}
const results: readonly SpecResult[] = await runSpecs(backend, filter, place).catch((error: unknown) => {
  console.error(error instanceof NoBackend ? error.message : error)
  process.exit(2)
})
const verdict = judge(results, library === 'web' ? [] : EXCEPTIONS[backend])
for (const { spec, problems } of verdict.failed) {
  console.log(`FAILED ${spec}`)
  for (const { message, stack } of problems) console.log(`  ${message}${options.stacks ? `\n${stack}` : ''}`)
}
for (const { spec } of verdict.stale) console.log(`STALE ${spec}: listed as an exception, but it does not fail`)
if (options.reasons) for (const { spec, reason } of verdict.known) console.log(`EXCEPTION ${spec}: ${reason}`)
console.log(summaryLine(verdict))
process.exit(verdict.failed.length + verdict.stale.length === 0 ? 0 : 1) // specs leave timers behind
