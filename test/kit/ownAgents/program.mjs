/** An agent as a program of its own: it reads a question, asks the API that its environment names, and prints an answer. */
import { codeOf } from './table.mjs'

let question = ''
for await (const chunk of process.stdin) question += chunk
const messages = [{ role: 'user', content: question }]
for (let turn = 0; turn < 3; turn++) {
  const answer = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${process.env.OPENAI_API_KEY}` },
    body: JSON.stringify({
      model: 'gpt-4o-mini',
      messages,
      tools: [
        {
          type: 'function',
          function: { name: 'lookup', parameters: { type: 'object' } },
        },
      ],
    }),
  })
  const { choices } = await answer.json()
  const { message } = choices[0]
  messages.push(message)
  if (!message.tool_calls?.length) {
    console.log(message.content)
    break
  }
  for (const { id } of message.tool_calls) messages.push({ role: 'tool', tool_call_id: id, content: codeOf(question) })
}
