/** The page of the bundled worker: its title is what the worker sends. */
const worker = new Worker(new URL('./worker.js', import.meta.url), { type: 'module' })
worker.onmessage = ({ data }) => {
  document.title = JSON.stringify(data)
}
worker.onerror = ({ message }) => {
  document.title = JSON.stringify({ problem: message })
}
