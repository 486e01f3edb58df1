/** The parts shared by all views of one run: its data, tabs, state and note. */
import { get, isExported, put, runPath } from './api.js'
import { announce, h, openDialog } from './dom.js'
import { address } from './router.js'
import { visible } from './visible.js'

/** @param {string} id @param {AbortSignal} [signal] */
export const loadRun = (id, signal) => get(runPath(id), {}, signal)

const TABS = [
  [null, 'Overview', null],
  ['rollouts', 'Rollouts', null],
  ['health', 'Health', null],
  ['reward', 'Reward', 'rescore'],
  ['lab', 'Lab', 'probability'],
  ['chat', 'Chat', 'chat'],
  ['settings', 'Settings', null],
]

/** @param {string} name of a run, tag or label @returns {Node[]} */
export const named = (name) => visible(name)

/**
 * Returns the title, place and tabs of a view of a run.
 *
 * @param {object} run
 * @param {string | null} part the view, null for the overview
 * @param {string} [last] a name below the tab
 */
export const frame = (run, part, last) => ({
  title: `${run.name}${part === null ? '' : ` · ${last ?? part}`}`,
  crumbs: [
    { label: 'Runs', href: address(['runs']) },
    { label: named(run.name), href: address(['run', run.id]) },
    ...(last === undefined ? [] : [{ label: last }]),
  ],
  tabs: TABS.filter(([, , feature]) => feature === null || (!isExported && run.features.includes(feature))).map(
    ([name, label]) => ({
      label,
      href: address(name === null ? ['run', run.id] : ['run', run.id, name]),
      isOpen: name === part,
    }),
  ),
})

const STATES = { running: 'good', finished: 'accent', stopped: 'warn' }

/** @param {string} state */
export const stateBadge = (state) =>
  h('span', { class: `badge ${STATES[state]} ${state}` }, h('span', { class: 'dot' }), state)

/** @param {readonly string[]} tags */
export const tagList = (tags) =>
  h(
    'span',
    { class: 'chips' },
    tags.map((tag) => h('span', { class: 'badge' }, named(tag))),
  )

/** @param {string} text separated by commas or spaces */
export const wordsOf = (text) => [...new Set(text.split(/[,\s]+/).filter((word) => word !== ''))]

/**
 * Opens a dialog that edits the name, tags and note of a run.
 *
 * @param {object} run
 * @param {(row: object) => void} changed
 */
export const editNote = (run, changed) => {
  const field = (label, element) => h('label', { class: 'field' }, label, element)
  const name = h('input', { value: run.name, maxlength: 200 })
  const tags = h('input', { value: run.tags.join(' '), placeholder: 'baseline longer-context' })
  const note = h('textarea', { rows: 5, maxlength: 20_000 })
  note.value = run.note
  const save = async (event) => {
    event.preventDefault()
    try {
      const body = { name: name.value, note: note.value, tags: wordsOf(tags.value) }
      changed(await put(`${runPath(run.id)}/note`, body))
      close()
      announce('Saved')
    } catch (error) {
      announce(error.message)
    }
  }
  const close = openDialog(
    'Name, tags and note',
    h(
      'form',
      { onsubmit: save },
      field('Name', name),
      field('Tags', tags),
      field('Note', note),
      h('button', { class: 'primary', type: 'submit' }, 'Save'),
    ),
  )
}
