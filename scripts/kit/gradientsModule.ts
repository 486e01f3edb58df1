/** Joins the gradients that tfjs-core ships for bundlers into one module. */
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import * as tf from '@tensorflow/tfjs-core'
import { build, type Plugin } from 'esbuild'

const CORE = '@tensorflow/tfjs-core'

/** The folder of tfjs-core's files for bundlers. */
const FOLDER = dirname(createRequire(import.meta.url).resolve(CORE))

const HEADER = `// The gradients of ${CORE} ${tf.version_core}, joined by scripts/make/gradients.ts. Not edited by hand.
// Copyright Google LLC, Apache License 2.0: see NOTICE.
`

/**
 * Files with state, which must be the program's own, and what they export that the package has by
 * another name.
 */
const SHARED: Readonly<Record<string, string>> = {
  'engine.js': `import { engine } from '${CORE}'; export const ENGINE = engine()`,
  'environment.js': '',
  'tensor.js': `import { Tensor } from '${CORE}'; export const getGlobalTensorClass = () => Tensor`,
}

const exportsOf = async (path: string): Promise<readonly string[]> => {
  const { metafile } = await build({ entryPoints: [path], bundle: true, metafile: true, write: false, format: 'esm' })
  return Object.values(metafile.outputs).flatMap((output) => output.exports)
}

/** The helpers that tfjs-core exports as one object each. */
const HELPERS = { util: tf.util, backend_util: tf.backend_util, slice_util: tf.slice_util }

/**
 * A module that takes what the file at `path` exports from the package, or nothing if the package
 * lacks some of it.
 */
const fromPackage = async (path: string): Promise<string | undefined> => {
  const names = await exportsOf(path)
  const known = names.filter((name) => name in tf)
  const more = SHARED[basename(path)]
  if (more !== undefined) return `export { ${known} } from '${CORE}'; ${more}`
  if (known.length === names.length) return `export { ${names} } from '${CORE}'`
  for (const [helper, members] of Object.entries(HELPERS)) {
    if (!names.every((name) => name in members)) continue
    const lines = names.map((name) => `export const ${name} = ${helper}.${name}`)
    return [`import { ${helper} } from '${CORE}'`, ...lines].join('\n')
  }
  return undefined
}

const takeFromPackage: Plugin = {
  name: 'take what tfjs-core exports from the package',
  setup({ onResolve, onLoad }) {
    const known = new Map<string, Promise<string | undefined>>()
    onResolve({ filter: /^\./ }, async ({ resolveDir, path }) => {
      const file = `${join(resolveDir, path)}.js`
      if (!known.has(file)) known.set(file, fromPackage(file))
      const contents = await known.get(file)
      return contents === undefined ? { path: file } : { path: file, namespace: 'package', pluginData: contents }
    })
    onLoad({ filter: /.*/, namespace: 'package' }, ({ pluginData }) => ({ contents: pluginData }))
  },
}

/** The text of the module. Importing it registers the gradients with tfjs. */
export const gradientsModule = async (): Promise<string> => {
  const { outputFiles } = await build({
    entryPoints: [join(FOLDER, 'register_all_gradients.js')],
    ...{ bundle: true, write: false, format: 'esm', external: [CORE], plugins: [takeFromPackage] },
    ...{ minifyWhitespace: true, lineLimit: 120, legalComments: 'none', banner: { js: HEADER } },
  })
  return outputFiles.map(({ text }) => text).join('')
}
