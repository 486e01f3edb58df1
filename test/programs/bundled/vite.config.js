// biome-ignore lint/style/noDefaultExport: Vite reads the default export
export default { build: { outDir: 'out/vite', target: 'esnext' }, worker: { format: 'es' }, logLevel: 'warn' }
