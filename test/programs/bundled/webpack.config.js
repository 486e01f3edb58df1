import { resolve } from 'node:path'

// biome-ignore lint/style/noDefaultExport: webpack reads the default export
export default {
  mode: 'production',
  entry: './main.js',
  output: { path: resolve('out/webpack'), filename: 'main.js', module: true },
  performance: { hints: false }, // about the size of the engine
  experiments: { outputModule: true },
}
