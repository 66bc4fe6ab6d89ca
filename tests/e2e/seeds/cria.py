"""What the README of cria tells its users to run: every event is a chunk of JSON, to the end of the stream."""

import json
import sys
import time

import sseclient
import urllib3

url = sys.argv[1] + "/v1/completions"

http = urllib3.PoolManager()
response = http.request(
    "POST",
    url,
    preload_content=False,
    headers={"Content-Type": "application/json"},
    body=json.dumps({"prompt": "Morocco is a beautiful country situated in north africa.", "temperature": 0.1}),
)
client = sseclient.SSEClient(response)

begin = time.perf_counter()
for event in client.events():
    chunk = json.loads(event.data)
    sys.stdout.write(chunk["choices"][0]["text"])
    sys.stdout.flush()
print(f"\nGeneration from completion took {time.perf_counter() - begin:.2f} !")
