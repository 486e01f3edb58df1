/**
 * Builds the page that trains into `build/page`: `npm run make -- page`. Any file server can serve
 * it.
 */
import { cpSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Plugin } from 'esbuild'
import { browserFiles } from '../kit/browserFiles.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const require = createRequire(import.meta.url)

/** Files of onnxruntime-web: for WebAssembly, and those that only WebGPU loads. */
const ENGINE_FILES = [
  ...['mjs', 'wasm'].flatMap((end) => [`ort-wasm-simd-threaded.${end}`, `ort-wasm-simd-threaded.jspi.${end}`]),
  'ort.jspi.min.mjs',
]

/** Files of the training page besides its scripts: where they are, and their names on the page. */
const copiesOf = (uplot: string, ort: string): readonly (readonly [from: string, to: string])[] => [
  ...['index', 'poker'].map((name) => [`site/training/${name}.html`, `${name}.html`] as const),
  ['site/training/page.css', 'page.css'],
  ...['base.css', 'theme.js', 'icon.svg'].map((name) => [`packages/view/assets/${name}`, name] as const),
  [join(uplot, 'uPlot.min.css'), 'uPlot.min.css'],
  ...['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja'].map(
    (name) => [`models/word-problems/${name}`, `model/${name}`] as const,
  ),
  ...['page.js', 'page.css'].map((name) => [`assets/report/${name}`, `report/${name}`] as const),
  ...['uPlot.iife.min.js', 'uPlot.min.css'].map((name) => [join(uplot, name), `report/${name}`] as const),
  ...ENGINE_FILES.map((name) => [join(ort, name), `onnxruntime-web/${name}`] as const),
]

/** Resolves uPlot, which the server of the viewer adds to its folder. */
const chartLibrary = (path: string): Plugin => ({
  name: 'uPlot',
  setup: (builder) => {
    builder.onResolve({ filter: /^\.\/uPlot\.esm\.js$/ }, () => ({ path }))
  },
})

/** Builds the page into a folder, which is emptied first. */
export const buildTrainingPage = async (folder: string): Promise<void> => {
  rmSync(folder, { recursive: true, force: true })
  const uplot = dirname(require.resolve('uplot/dist/uPlot.min.css'))
  const ort = dirname(require.resolve('onnxruntime-web/ort-wasm-simd-threaded.wasm'))
  for (const [from, to] of copiesOf(uplot, ort)) {
    mkdirSync(dirname(join(folder, to)), { recursive: true })
    cpSync(resolve(ROOT, from), join(folder, to))
  }
  const { metafile } = await build({
    ...{ bundle: true, minify: true, format: 'esm', platform: 'browser', logLevel: 'error', absWorkingDir: ROOT },
    conditions: ['tandem-source'],
    entryPoints: {
      worker: 'site/training/worker.ts',
      main: 'site/training/main.js',
      'onnxruntime-web/webGpuWorker': 'packages/tfjs-onnxruntime/src/onnxruntime/browser/webGpuWorker.ts',
    },
    outdir: folder,
    plugins: [browserFiles(), chartLibrary(join(uplot, 'uPlot.esm.js'))],
    external: ['node:*', 'onnxruntime-node', 'prom-client'], // imported by modules that the page does not use
    metafile: true,
  })
  const left = Object.values(metafile.outputs).flatMap((output) => output.imports.map(({ path }) => path))
  if (left.length > 0) throw new Error(`the page would import ${left.join(', ')}`)
}

const bytesBelow = (folder: string): number =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => statSync(join(folder, name)))
    .reduce((sum, entry) => sum + (entry.isFile() ? entry.size : 0), 0)

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = join(ROOT, 'build/page')
  await buildTrainingPage(folder)
  console.log(`${folder}: ${(bytesBelow(folder) / 1e6).toFixed(1)} MB`)
}
