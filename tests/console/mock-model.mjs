// A mock language model with fixed answers over the OpenAI API: a poem on request, a Chinese sentence if the instructions ask for
// Chinese, else an English one. Spoken text then does not depend on a model. Not for tools.
//   node mock-model.mjs PORT
import { createServer } from 'node:http';

export const ENGLISH = 'You could walk to the park and read a good book under the trees.';
export const CHINESE = '今天天气很好，我们一起去公园散步吧。';
export const POEM = 'One apple is red. Two apples are green. Three apples are blue. Four apples are white. Five apples are black. ' +
  'Six apples are small. Seven apples are big. Eight apples are gone. That was the whole poem about all the apples.';

/** Returns the answer to these messages. */
function answer(messages) {
  const text = (message) => (typeof message?.content === 'string' ? message.content : JSON.stringify(message?.content ?? ''));
  if (/poem/i.test(text(messages.findLast(({ role }) => role === 'user')))) return POEM;
  return messages.some((message) => message.role === 'system' && text(message).includes('in Chinese')) ? CHINESE : ENGLISH;
}

function serve(request, response) {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => {
    if (request.method !== 'POST') return response.writeHead(200, { 'content-type': 'application/json' }).end('{"data":[]}');
    const { messages, stream } = JSON.parse(Buffer.concat(parts).toString());
    const words = answer(messages);
    const head = { id: 'mock', created: 0, model: 'mock' };
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    if (!stream) {
      const choices = [{ index: 0, message: { role: 'assistant', content: words }, finish_reason: 'stop' }];
      return response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ ...head, object: 'chat.completion', choices, usage }));
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const event = (choices, more = {}) => response.write(`data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices, ...more })}\n\n`);
    for (const word of words.match(/\S+\s*/g)) event([{ index: 0, delta: { role: 'assistant', content: word }, finish_reason: null }]);
    event([{ index: 0, delta: {}, finish_reason: 'stop' }]);
    event([], { usage });
    return response.end('data: [DONE]\n\n');
  });
}

const port = process.argv[1]?.endsWith('mock-model.mjs') ? Number(process.argv[2]) : undefined;
if (port !== undefined) createServer(serve).listen(port, '127.0.0.1');
