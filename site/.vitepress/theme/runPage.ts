/** A button that runs the programs of a page of the guide in a worker, with their output. */
import { withBase } from 'vitepress'
import { defineComponent, h, onUnmounted, ref } from 'vue'

/** As `site/run/prelude.ts` sends them. */
type FromProgram =
  | { readonly type: 'line'; readonly text: string }
  | { readonly type: 'end'; readonly problem: string | null }

const LOADING = 'Running. The first run loads the engine and the model, 20 MB.'

export const RunPage = defineComponent({
  props: { worker: { type: String, required: true } },
  setup: ({ worker: name }) => {
    const isRunning = ref(false)
    const lines = ref<readonly string[]>([])
    const status = ref('')
    let worker: Worker | undefined

    const end = (text: string): void => {
      isRunning.value = false
      status.value = text
      worker?.terminate()
    }

    const run = (): void => {
      isRunning.value = true
      lines.value = []
      status.value = LOADING
      const started = performance.now()
      worker = new Worker(withBase(`/train/${name}.js`), { type: 'module' })
      worker.onmessage = ({ data }: { readonly data: FromProgram }) => {
        if (data.type === 'line') lines.value = [...lines.value, data.text]
        else if (data.problem !== null) end(`Failed: ${data.problem}`)
        else end(`Ran in ${((performance.now() - started) / 1000).toFixed(1)} s: all assertions hold.`)
      }
      worker.onerror = () => end('The program could not be loaded.')
    }

    onUnmounted(() => worker?.terminate())
    return () =>
      h('div', { class: 'run-page' }, [
        h('button', { type: 'button', disabled: isRunning.value, onClick: run }, "Run this page's programs here"),
        h('p', { role: 'status' }, status.value),
        lines.value.length === 0 ? null : h('pre', { tabindex: 0, 'aria-label': 'Output' }, lines.value.join('\n')),
      ])
  },
})
